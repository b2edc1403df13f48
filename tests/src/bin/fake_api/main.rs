//! A fake API that charges for each request that it carries out: `/v1/charges`, and the endpoints of language models with answers
//! as streams and without. Each charge is a line in the file `EFFECTS`, synced before anything is answered:
//!
//!     charge WISH KEY PATH PID MILLISECONDS
//!
//! A request says by `X-Test-Fault` what is to go wrong the first time that its wish (`X-Test-Wish`) is carried out; each
//! strike is a line in `EFFECTS.faults`. `EFFECTS.requests` holds each request that came whole. Its address is the first
//! line of its output.
//!
//! A body with the member `refuse` is answered with that status, and nothing is charged.
//!
//! `SERVER_PORT` (0: a free one), `SERVER_KEYS=1` (answers a known `Idempotency-Key` again), `SERVER_PACE_MS` (between two
//! events), `SERVER_DELAY_MS` (before each answer), `SERVER_SLOW_MS` (what is slow).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod answer;
mod books;
mod request;
mod send;

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use settled_tests::Fault;

use crate::answer::Answer;
use crate::books::Books;
use crate::request::{Connection, Request};
use crate::send::Sending;

/// How it behaves.
struct Settings {
    keys: bool,
    pace: Duration,
    delay: Duration,
    slow: Duration,
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

fn main() {
    let millis = |name, otherwise| Duration::from_millis(number(name, otherwise));
    let settings = Settings {
        keys: number("SERVER_KEYS", 0) == 1,
        pace: millis("SERVER_PACE_MS", 0),
        delay: millis("SERVER_DELAY_MS", 0),
        slow: millis("SERVER_SLOW_MS", 4_000),
    };
    let port = u16::try_from(number("SERVER_PORT", 0)).expect("a port");
    // One that was killed may leave its port in use for a moment.
    let listener = settled_tests::until("a port", || TcpListener::bind(("127.0.0.1", port)).ok());
    println!("http://{}", listener.local_addr().expect("its address"));
    std::io::stdout().flush().expect("standard output");
    let shared = Arc::new((settings, Books::open()));
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let shared = shared.clone();
        thread::spawn(move || serve(&shared.0, &shared.1, stream));
    }
}

fn serve(settings: &Settings, books: &Books, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut connection = Connection::new(stream);
    while let Some(request) = connection.next() {
        books.note_request(&request);
        let sending = match carry_out(settings, books, &request) {
            Some(sending) => sending,
            None => return connection.reset(),
        };
        if !sending.send(connection.stream()) || request.wants_close() {
            return;
        }
    }
}

/// Does what is asked; `None` if the connection is to be reset.
fn carry_out(settings: &Settings, books: &Books, request: &Request) -> Option<Sending> {
    if request.method != "POST" {
        let body = format!(r#"{{"method":"{}","path":"{}"}}"#, request.method, request.path());
        return Some(Sending::whole(&Answer::json(200, body)));
    }
    if let Some(status) = answer::refusal(request) {
        return Some(Sending::whole(&Answer::json(status, r#"{"error":{"message":"refused"}}"#.to_owned())));
    }
    let fault = books.strike(request);
    if fault == Fault::Before {
        return None;
    }
    let charge = books.charge(request, settings.keys);
    let Some(answer) = Answer::to(request, &charge) else {
        return Some(Sending::whole(&Answer::json(404, r#"{"error":{"message":"no such path"}}"#.to_owned())));
    };
    thread::sleep(settings.delay);
    let events = u32::try_from(answer.parts.len()).unwrap_or(1);
    let pace = if fault == Fault::Slow { settings.slow / events } else { settings.pace };
    match fault {
        Fault::Lost => None,
        Fault::Error => {
            let body = r#"{"error":{"message":"the server had an error","type":"server_error"}}"#;
            Some(Sending::whole(&Answer::json(500, body.to_owned())))
        }
        Fault::Hang => {
            request.wait_for_the_client();
            None
        }
        Fault::Kill => die(),
        Fault::Slow if !answer.is_stream() => {
            thread::sleep(settings.slow);
            Some(Sending::whole(&answer))
        }
        fault => Some(Sending::new(&answer, fault, pace)),
    }
}

/// Kills this process, as `kill -9` does.
fn die() -> ! {
    let _ = kill(Pid::this(), Signal::SIGKILL);
    std::process::abort()
}
