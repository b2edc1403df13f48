//! The fake API of the gateway's tests: what can go wrong with it, and how it is started.

use std::fmt;
use std::str::FromStr;

use crate::running::Running;
use crate::stage::Stage;

/// Names the header by which a request says what is to go wrong when it is first carried out.
pub const FAULT_HEADER: &str = "x-test-fault";

/// Names the header by which a request says which wish it belongs to; charges are counted for each.
pub const WISH_HEADER: &str = "x-test-wish";

/// What goes wrong once, with the first request of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Nothing.
    None,
    /// The connection is reset when the request is there, before it is carried out.
    Before,
    /// It is carried out, and the connection reset without an answer.
    Lost,
    /// The answer breaks off in its status line.
    Status,
    /// In its headers.
    Head,
    /// Between its headers and its body.
    Body,
    /// Inside an event (or the body, if it is no stream).
    Event,
    /// Inside a character of several bytes.
    Character,
    /// Between two events.
    Between,
    /// Before the event that ends the stream (or before the last byte).
    Marker,
    /// After that event, before the end of the body.
    End,
    /// Between two events, by an orderly end of a body whose end is that of the connection.
    Fin,
    /// The stream is whole, but slower than the client's patience.
    Slow,
    /// It is carried out and answered with 500.
    Error,
    /// It is carried out and never answered.
    Hang,
    /// The process kills itself after it was carried out.
    Kill,
    /// The process kills itself in the middle of the answer.
    KillMidway,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 17] = [
        Fault::None,
        Fault::Before,
        Fault::Lost,
        Fault::Status,
        Fault::Head,
        Fault::Body,
        Fault::Event,
        Fault::Character,
        Fault::Between,
        Fault::Marker,
        Fault::End,
        Fault::Fin,
        Fault::Slow,
        Fault::Error,
        Fault::Hang,
        Fault::Kill,
        Fault::KillMidway,
    ];

    /// Its name, in headers and tables.
    pub fn name(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Before => "reset-before-effect",
            Fault::Lost => "answer-lost",
            Fault::Status => "cut-in-status-line",
            Fault::Head => "cut-in-headers",
            Fault::Body => "cut-before-body",
            Fault::Event => "cut-in-event",
            Fault::Character => "cut-in-character",
            Fault::Between => "cut-between-events",
            Fault::Marker => "cut-before-end-marker",
            Fault::End => "cut-after-end-marker",
            Fault::Fin => "ended-between-events",
            Fault::Slow => "slow-answer",
            Fault::Error => "500-after-effect",
            Fault::Hang => "no-answer",
            Fault::Kill => "killed-after-effect",
            Fault::KillMidway => "killed-midway",
        }
    }

    /// It is about the events of a stream.
    pub fn needs_stream(self) -> bool {
        matches!(self, Fault::Between | Fault::End | Fault::Fin)
    }

    /// The server is gone afterwards.
    pub fn kills(self) -> bool {
        matches!(self, Fault::Kill | Fault::KillMidway)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Fault, String> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| format!("no fault is called {name}"))
    }
}

/// The fake API, running.
pub struct Api {
    /// Its process.
    pub running: Running,
    /// Its URL, without a path.
    pub url: String,
}

/// Whether the fake API knows idempotency keys by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Upstream {
    /// It does not: each request is carried out.
    Opaque,
    /// A key that it has seen is answered again, and not carried out.
    Keyed,
}

impl Stage {
    /// Starts the fake API at this port; 0 is a free one.
    #[track_caller]
    pub fn start_api(&self, upstream: Upstream, port: u16) -> Api {
        let keys = if upstream == Upstream::Keyed { "1" } else { "0" };
        let port = port.to_string();
        let argv = [crate::clients::program("fake_api")];
        let mut running = self.start_with(&argv, &[("SERVER_KEYS", keys), ("SERVER_PORT", &port)]);
        let url = running.next_line().expect("the fake API says where it listens");
        Api { running, url }
    }

    /// The charges of one wish.
    pub fn charges(&self, wish: &str) -> usize {
        self.effects().iter().filter(|line| line.split(' ').nth(1) == Some(wish)).count()
    }

    /// The requests that the fake API got for a wish, whole, each as JSON: method, target, headers, body.
    pub fn requests(&self, wish: &str) -> Vec<serde_json::Value> {
        let lines = crate::stage::whole_lines(&self.path("effects.requests"));
        let requests = lines.iter().map(|line| serde_json::from_str(line).expect("a request as JSON"));
        requests.filter(|request: &serde_json::Value| request["headers"][WISH_HEADER] == wish).collect()
    }

    /// The faults that struck for a wish.
    pub fn strikes(&self, wish: &str) -> usize {
        let lines = crate::stage::whole_lines(&self.path("effects.faults"));
        lines.iter().filter(|line| line.split(' ').next() == Some(wish)).count()
    }
}

impl Api {
    /// Its port.
    pub fn port(&self) -> u16 {
        crate::breaker::address_of(&self.url).0.port()
    }
}
