//! TLS as this machine trusts it.

use rustls::ClientConfig;

use crate::error::Unusable;

/// TLS with the certificates that this machine trusts (`SSL_CERT_FILE` and `SSL_CERT_DIR` change which).
pub(crate) fn client() -> Result<ClientConfig, Unusable> {
    settled_http::tls::client(None).map_err(|error| Unusable(error.to_string()))
}
