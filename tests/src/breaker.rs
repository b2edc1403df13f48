//! A TCP connection that can be cut: a relay on an address that stays, in front of a server that may come and go.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::Linger};

use crate::wait::PATIENCE;

/// How connections are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Reset, as by a machine that is gone.
    Reset,
    /// Ended in order, as by a load balancer that has waited long enough.
    End,
}

/// The relay. Its connections end when this is dropped.
pub struct Breaker {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: Mutex<Option<SocketAddr>>,
    open: Mutex<Vec<Arc<Pair>>>,
    closed: AtomicBool,
}

struct Pair {
    client: TcpStream,
    server: TcpStream,
    /// It was cut: nothing more is passed on, not even an end.
    cut: AtomicBool,
}

impl Breaker {
    /// One that leads nowhere yet.
    pub fn new() -> Breaker {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let shared =
            Arc::new(Shared { target: Mutex::default(), open: Mutex::default(), closed: AtomicBool::new(false) });
        let its = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if its.closed.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(client) = client else { continue };
                let shared = its.clone();
                thread::spawn(move || relay(&shared, client));
            }
        });
        Breaker { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL with this address in place of its own.
    ///
    /// # Panics
    /// If it has no host and port.
    pub fn in_front_of(&self, url: &str) -> String {
        let (address, path) = address_of(url);
        self.lead_to(address);
        format!("http://{}{path}", self.address)
    }

    /// From now on it leads there. Connections wait for a target, and for a target that does not listen yet.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.shared.target.lock().expect("no panic while held") = Some(target);
    }

    /// Cuts all connections that are open; new ones are relayed as before. How many there were.
    pub fn cut(&self, how: Cut) -> usize {
        let pairs = std::mem::take(&mut *self.shared.open.lock().expect("no panic while held"));
        for pair in &pairs {
            if how == Cut::Reset {
                pair.cut.store(true, Ordering::SeqCst);
                for side in [&pair.client, &pair.server] {
                    // Closing such a socket resets the connection.
                    let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                    setsockopt(&side.as_fd(), Linger, &at_once).expect("a socket can be told to reset");
                    // Wakes the threads that read, which then close it.
                    let _ = side.shutdown(Shutdown::Read);
                }
            } else {
                for side in [&pair.client, &pair.server] {
                    let _ = side.shutdown(Shutdown::Both);
                }
            }
        }
        pairs.len()
    }
}

impl Default for Breaker {
    fn default() -> Self {
        Breaker::new()
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.cut(Cut::End);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

/// The address and the rest of a URL.
///
/// # Panics
/// If it is not `http://ADDRESS:PORT…`.
pub fn address_of(url: &str) -> (SocketAddr, &str) {
    let rest = url.strip_prefix("http://").expect("a URL over HTTP");
    let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    (address.parse().expect("an address and a port"), path)
}

fn relay(shared: &Shared, client: TcpStream) {
    let Some(server) = connect(shared) else { return };
    let pair = Arc::new(Pair { client, server, cut: AtomicBool::new(false) });
    shared.open.lock().expect("no panic while held").push(pair.clone());
    let its = pair.clone();
    let back = thread::spawn(move || copy(&its.server, &its.client, &its.cut));
    copy(&pair.client, &pair.server, &pair.cut);
    let _ = back.join();
    shared.open.lock().expect("no panic while held").retain(|open| !Arc::ptr_eq(open, &pair));
}

fn connect(shared: &Shared) -> Option<TcpStream> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE && !shared.closed.load(Ordering::SeqCst) {
        let target = *shared.target.lock().expect("no panic while held");
        if let Some(server) = target.and_then(|target| TcpStream::connect(target).ok()) {
            return Some(server);
        }
        thread::sleep(Duration::from_millis(10));
    }
    None
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, cut: &AtomicBool) {
    let mut bytes = [0; 16 * 1024];
    loop {
        match from.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(length) => {
                let sent = bytes.get(..length).map(|read| to.write_all(read));
                if cut.load(Ordering::SeqCst) || !matches!(sent, Some(Ok(()))) {
                    break;
                }
            }
        }
    }
    if !cut.load(Ordering::SeqCst) {
        let _ = to.shutdown(Shutdown::Write);
    }
}
