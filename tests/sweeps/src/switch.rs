//! An address that leads to one server, and after a failover to another, as a proxy or a moved address does.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A listening address.
pub struct Switch {
    port: u16,
    route: Arc<Mutex<Route>>,
}

struct Route {
    to: u16,
    /// Both ends of every connection so far.
    open: Vec<TcpStream>,
}

impl Switch {
    /// One that leads to this port.
    ///
    /// # Panics
    /// If it can't listen.
    pub fn to(port: u16) -> Switch {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let route = Arc::new(Mutex::new(Route { to: port, open: Vec::new() }));
        thread::spawn({
            let route = Arc::clone(&route);
            move || {
                for client in listener.incoming().flatten() {
                    // While there is no server, connections are closed at once.
                    let _ = connect(&client, &route);
                }
            }
        });
        Switch { port: own, route }
    }

    /// Its own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Leads to another port from now on. What is open is closed.
    ///
    /// # Panics
    /// Never, unless a connection did.
    pub fn turn(&self, port: u16) {
        let mut route = self.route.lock().unwrap();
        route.to = port;
        for stream in route.open.drain(..) {
            // One that has ended already needs no end.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn connect(client: &TcpStream, route: &Mutex<Route>) -> io::Result<()> {
    let mut route = route.lock().unwrap();
    let server = TcpStream::connect(("127.0.0.1", route.to))?;
    route.open.extend([client.try_clone()?, server.try_clone()?]);
    for (from, to) in [(client.try_clone()?, server.try_clone()?), (server, client.try_clone()?)] {
        to.set_nodelay(true)?;
        thread::spawn(move || {
            let (mut from, mut to) = (from, to);
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}
