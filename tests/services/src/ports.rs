//! Free ports on the loopback interface.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port on 127.0.0.1 that nobody listens on now.
///
/// It stays free only as long as nobody else takes it: start what shall listen on it soon, and try another port if that fails.
///
/// # Errors
/// If the system has none to give.
pub fn free() -> io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr().map(|address| address.port())
}
