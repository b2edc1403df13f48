//! TLS as this machine trusts it.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::error::Unusable;

/// TLS with the certificates that this machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` change which).
pub(crate) fn client() -> Result<ClientConfig, Unusable> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Unusable(format!("TLS can't be used: {error}")))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}
