//! TLS to a server behind HTTP.

use std::path::Path;

use rustls::ClientConfig;
use settled_http::tls::{self, TlsError};

use crate::upstream::UpstreamError;

/// TLS as this machine trusts it, and the certificates in a file; HTTP/2 where the server has it.
pub(crate) fn client(ca: Option<&Path>) -> Result<ClientConfig, UpstreamError> {
    let mut config = tls::client(ca).map_err(|error| match error {
        TlsError::Ca { path, problem } => UpstreamError::Ca { path, problem },
        other => UpstreamError::Client(other.to_string()),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
