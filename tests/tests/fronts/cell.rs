//! The combinations.

use std::collections::BTreeSet;
use std::fmt;

use settled_tests::{Client, Server};

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    Stdio,
    Http,
}

use Link::{Http, Stdio};

/// From the client to the proxy, and from the proxy to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Way {
    pub front: Link,
    pub back: Link,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing: two wishes, which must both be fulfilled.
    TwoWishes,
    /// Two at once for one wish.
    DoubleClick,
    /// The same call twice in one JSON array.
    Batch,
    /// The client does not wait for the answer, and asks again.
    Timeout,
    /// The same over HTTP under 2026-07-28: the client closes the stream of the answer, which cancels the call, and asks again.
    Cancelled,
    /// The answer is lost behind the tool's adapter, and a framework's policy asks again.
    AnswerLost,
    /// The client is killed while it waits, and started again.
    ClientKilled,
    /// The client's connection is reset after the effect.
    ClientReset,
    /// The client's connection ends after the effect.
    ClientCut,
    /// The connection to the server is reset after the effect.
    ServerReset,
    /// The connection to the server ends after the effect.
    ServerCut,
    /// The server kills itself after its effect, and is started again.
    ServerKilled,
    /// The proxy is killed after the call was sent, and started again.
    ProxyKilled,
}

/// One combination.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub client: Client,
    pub way: Way,
    pub revision: &'static str,
    pub fault: Fault,
}

/// One without a proxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Direct {
    pub client: Client,
    pub link: Link,
    pub revision: &'static str,
    pub fault: Fault,
}

pub const STATELESS: &str = "2026-07-28";
const HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const CLIENTS: [Client; 8] = [
    Client::Node,
    Client::NodeCurrent,
    Client::Node2,
    Client::Python,
    Client::Python2,
    Client::Rmcp,
    Client::LangGraph,
    Client::Agents,
];
const WAYS: [Way; 4] = [
    Way { front: Stdio, back: Stdio },
    Way { front: Stdio, back: Http },
    Way { front: Http, back: Stdio },
    Way { front: Http, back: Http },
];
const FAULTS: [Fault; 13] = [
    Fault::TwoWishes,
    Fault::DoubleClick,
    Fault::Batch,
    Fault::Timeout,
    Fault::Cancelled,
    Fault::AnswerLost,
    Fault::ClientKilled,
    Fault::ClientReset,
    Fault::ClientCut,
    Fault::ServerReset,
    Fault::ServerCut,
    Fault::ServerKilled,
    Fault::ProxyKilled,
];

impl Fault {
    /// How many effects there are to be.
    pub fn wishes(self) -> usize {
        if self == Fault::TwoWishes { 2 } else { 1 }
    }

    /// What it comes to where there is no proxy.
    fn without_proxy(self) -> Option<Fault> {
        match self {
            Fault::ServerReset => Some(Fault::ClientReset),
            Fault::ServerCut => Some(Fault::ClientCut),
            Fault::ProxyKilled => None,
            other => Some(other),
        }
    }

    fn is_possible(self, way: Way, revision: &str) -> bool {
        let closing_cancels = way.front == Http && revision == STATELESS;
        match self {
            Fault::Timeout => !closing_cancels,
            Fault::Cancelled => closing_cancels,
            // Only that revision has batches that a server takes.
            Fault::Batch => way.front == Http && revision == "2025-03-26",
            Fault::ClientReset | Fault::ClientCut => way.front == Http,
            Fault::ServerReset | Fault::ServerCut => way.back == Http,
            _ => true,
        }
    }
}

/// What a client can be made to do, and which revisions it speaks.
fn does(client: Client, fault: Fault) -> bool {
    match client {
        Client::LangGraph => fault == Fault::AnswerLost,
        Client::Agents => matches!(fault, Fault::TwoWishes | Fault::Timeout | Fault::ClientKilled),
        Client::Node | Client::NodeCurrent => fault != Fault::AnswerLost,
        _ => !matches!(fault, Fault::AnswerLost | Fault::Batch),
    }
}

fn speaks(client: Client) -> Vec<&'static str> {
    let mut revisions = HANDSHAKE.to_vec();
    if matches!(client, Client::Node2 | Client::Python2 | Client::Rmcp) {
        revisions.push(STATELESS);
    }
    revisions
}

/// All that make sense.
pub fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for client in CLIENTS {
        for fault in FAULTS.into_iter().filter(|fault| does(client, *fault)) {
            for way in WAYS {
                let revisions = speaks(client).into_iter().filter(|revision| fault.is_possible(way, revision));
                cells.extend(revisions.map(|revision| Cell { client, way, revision, fault }));
            }
        }
    }
    cells
}

/// What these are without a proxy.
pub fn direct(cells: &[Cell]) -> Vec<Direct> {
    cells.iter().filter_map(Cell::direct).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Cell {
    /// The same without a proxy.
    pub fn direct(&self) -> Option<Direct> {
        let fault = self.fault.without_proxy()?;
        // A fault of the server's connection needs a client on such a connection.
        let link = if fault == self.fault { self.way.front } else { Http };
        Some(Direct { client: self.client, link, revision: self.revision, fault })
    }
}

impl Direct {
    /// Two wishes are no fault; and a client that resumes its stream, or a server that is told to stop early enough, are not
    /// harmed by every fault.
    pub fn may_be_harmless(&self) -> bool {
        matches!(self.fault, Fault::ClientReset | Fault::ClientCut) || self.revision == STATELESS
    }
}

/// The server that a client of this revision meets.
pub fn server(client: Client, revision: &str) -> Server {
    match client {
        _ if revision == STATELESS => Server::Python2,
        Client::Node | Client::NodeCurrent | Client::Node2 | Client::Rmcp => Server::Node,
        Client::Python | Client::LangGraph | Client::Agents => Server::Python,
        Client::Python2 => Server::Python2,
    }
}

/// A client's name and version.
pub fn name(client: Client) -> &'static str {
    match client {
        Client::Node => "TypeScript SDK 1.30.0",
        Client::NodeCurrent => "TypeScript SDK 1.32.2",
        Client::Node2 => "TypeScript SDK 2.4.0",
        Client::Python => "Python SDK 1.29.1",
        Client::Python2 => "Python SDK 2.3.0",
        Client::Rmcp => "rmcp 3.11.0",
        Client::LangGraph => "LangGraph 1.2.11",
        Client::Agents => "openai-agents 0.24.0",
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Stdio { "stdio" } else { "HTTP" })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>{}", self.front, self.back)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::TwoWishes => "none: two wishes",
            Fault::DoubleClick => "double click",
            Fault::Batch => "twice in one batch",
            Fault::Timeout => "timeout, retry",
            Fault::Cancelled => "stream closed, sent again",
            Fault::AnswerLost => "answer lost, 2 retries",
            Fault::ClientKilled => "client killed",
            Fault::ClientReset => "client's connection reset",
            Fault::ClientCut => "client's stream closed",
            Fault::ServerReset => "server's connection reset",
            Fault::ServerCut => "server's stream closed",
            Fault::ServerKilled => "server killed",
            Fault::ProxyKilled => "proxy killed",
        })
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}, {}", name(self.client), self.way, self.revision, self.fault)
    }
}

impl fmt::Display for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} without a proxy, {}, {}", name(self.client), self.link, self.revision, self.fault)
    }
}
