//! TLS to a server behind HTTP.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::upstream::UpstreamError;

/// TLS with the certificates that this machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` change which), and those in a file.
pub(crate) fn client(ca: Option<&Path>) -> Result<ClientConfig, UpstreamError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        let wrong = |problem: String| UpstreamError::Ca { path: path.to_owned(), problem };
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
        .map_err(|error| UpstreamError::Client(error.to_string()))?;
    let mut config = versions.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
