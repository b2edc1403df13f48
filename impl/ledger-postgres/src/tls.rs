//! Encrypted connections, by rustls.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What to ask of the server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing: encrypted, but with whomever.
    Nothing,
    /// That a known authority has signed it.
    Authority,
    /// That as well, and that it is this host's.
    Full,
}

/// How connections are encrypted, if they are.
pub(crate) struct Tls {
    pub verify: Verify,
    /// A file with the authorities' certificates; none: those of the system.
    pub root: Option<String>,
    /// Files with a certificate and a private key, to show to the server.
    pub client: Option<(String, String)>,
}

/// Encryption can't be set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("can't read certificates from `{0}`: {1}")]
    Read(String, String),
    #[error("`{0}` holds no certificate")]
    Empty(String),
    #[error("the system has no root certificates that can be read ({0}); name a file with sslrootcert=")]
    NoRoots(String),
    #[error("encryption can't be set up: {0}")]
    Rustls(String),
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> TlsError {
        TlsError::Rustls(error.to_string())
    }
}

impl Tls {
    pub fn connector(&self) -> Result<MakeRustlsConnect, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match self.verify {
            Verify::Nothing => Arc::new(AnyCertificate(Arc::clone(&provider))),
            Verify::Authority => Arc::new(AnyName(self.authorities(&provider)?)),
            Verify::Full => self.authorities(&provider)?,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let key_read =
                    PrivateKeyDer::from_pem_file(key).map_err(|e| TlsError::Read(key.clone(), e.to_string()))?;
                config.with_client_auth_cert(certificates(certificate)?, key_read)?
            }
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn authorities(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
        let mut roots = RootCertStore::empty();
        match &self.root {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|e| TlsError::Read(path.clone(), e.to_string()))?;
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
                    return Err(TlsError::NoRoots(errors.join("; ")));
                }
            }
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build();
        verifier.map_err(|e| TlsError::Rustls(e.to_string()))
    }
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |e: rustls::pki_types::pem::Error| TlsError::Read(path.to_owned(), e.to_string());
    let found = CertificateDer::pem_file_iter(path).map_err(read)?.collect::<Result<Vec<_>, _>>().map_err(read)?;
    if found.is_empty() { Err(TlsError::Empty(path.to_owned())) } else { Ok(found) }
}

/// Accepts every certificate: what `sslmode=require` means.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Accepts a certificate for any host if a known authority has signed it: what `sslmode=verify-ca` means.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is looked at last.
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
