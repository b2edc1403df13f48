//! TLS to servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Why TLS can't be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The certificates can't be used.
    #[error("the certificates in {} can't be used: {problem}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// TLS itself can't.
    #[error("TLS can't be used: {0}")]
    Tls(String),
}

/// TLS with the certificates that this machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` change which), and those in a file.
/// Which protocols are offered inside is left to whoever uses it.
///
/// # Errors
/// [`TlsError`].
pub fn client(ca: Option<&Path>) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        let wrong = |problem: String| TlsError::Ca { path: path.to_owned(), problem };
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
        let mut found = 0;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(wrong("it holds no certificate in PEM form".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Tls(error.to_string()))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}
