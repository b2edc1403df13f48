//! What is combined.

use std::collections::BTreeSet;
use std::fmt;

use settled_tests::Fault;

use super::play::Told;

/// A client that people use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    /// curl with `--retry 2 --retry-all-errors`.
    Curl,
    /// Python: httpx with `retries=2`.
    Httpx,
    /// Python: openai, which repeats twice by itself.
    OpenaiPython,
    /// Node: fetch.
    Fetch,
    /// Node: openai, which repeats twice by itself.
    OpenaiNode,
}

impl Client {
    pub const ALL: [Client; 5] = [Client::Curl, Client::Httpx, Client::OpenaiPython, Client::Fetch, Client::OpenaiNode];

    pub fn name(self) -> &'static str {
        match self {
            Client::Curl => "curl",
            Client::Httpx => "httpx",
            Client::OpenaiPython => "openai (Python)",
            Client::Fetch => "fetch (Node)",
            Client::OpenaiNode => "openai (Node)",
        }
    }
}

/// What it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Charges,
    Chat,
    ChatStream,
    Responses,
    ResponsesStream,
    Messages,
    MessagesStream,
}

impl Operation {
    pub const ALL: [Operation; 7] = [
        Operation::Charges,
        Operation::Chat,
        Operation::ChatStream,
        Operation::Responses,
        Operation::ResponsesStream,
        Operation::Messages,
        Operation::MessagesStream,
    ];

    /// As the scripts of the clients call it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Charges => "charges",
            Operation::Chat => "chat",
            Operation::ChatStream => "chat-stream",
            Operation::Responses => "responses",
            Operation::ResponsesStream => "responses-stream",
            Operation::Messages => "messages",
            Operation::MessagesStream => "messages-stream",
        }
    }

    pub fn is_stream(self) -> bool {
        self.name().ends_with("-stream")
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the client reaches the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// Without the gateway. The API knows no keys.
    Direct,
    /// Behind the gateway; the API knows no keys.
    Opaque,
    /// Behind the gateway; the API knows keys, and the gateway may send again.
    Keyed,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Direct, Way::Opaque, Way::Keyed];
}

/// One combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    pub client: Client,
    pub operation: Operation,
    pub fault: Fault,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.client.name(), self.operation, self.fault)
    }
}

impl Cell {
    fn exists(self) -> bool {
        let library = matches!(self.client, Client::OpenaiPython | Client::OpenaiNode);
        let its_own = !matches!(self.operation, Operation::Charges | Operation::Messages | Operation::MessagesStream);
        (its_own || !library) && (self.operation.is_stream() || !self.fault.needs_stream())
    }

    /// How often the fault strikes.
    pub fn strikes(self) -> usize {
        usize::from(self.fault != Fault::None)
    }

    /// How often one wish is charged behind the gateway.
    pub fn charges(self, way: Way) -> usize {
        // What may have been carried out is not sent again to an API that knows no keys.
        usize::from(self.fault != Fault::Before || way == Way::Keyed)
    }

    /// Without the gateway, the client need not repeat it.
    pub fn may_be_harmless(self) -> bool {
        match self.fault {
            Fault::None | Fault::Before => true,
            // It takes the half of an answer for the whole.
            Fault::Fin => true,
            // It waits for each event, or looks no further than the marker.
            Fault::Slow | Fault::End => self.operation.is_stream(),
            _ => false,
        }
    }

    /// Whether the last thing that a caller is told may be this.
    pub fn may_end_with(self, way: Way, told: Told) -> bool {
        match (way, self.fault) {
            (Way::Direct, _) => true,
            (Way::Keyed, _) | (Way::Opaque, Fault::None | Fault::Slow) => told == Told::Whole,
            // The marker has come: the answer is whole.
            (Way::Opaque, Fault::End) => told == Told::Whole,
            (Way::Opaque, _) => told == Told::Unknown,
        }
    }
}

/// All combinations that there are.
pub fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for client in Client::ALL {
        for operation in Operation::ALL {
            cells.extend(Fault::ALL.map(|fault| Cell { client, operation, fault }));
        }
    }
    cells.retain(|cell| cell.exists());
    cells
}

/// Some of them: each client meets each fault and each of its operations, each fault streams and whole answers.
pub fn sample(all: &[Cell]) -> Vec<Cell> {
    let pairs = |cell: &Cell| {
        [
            (cell.client as usize, 100 + cell.fault as usize),
            (cell.client as usize, 200 + cell.operation as usize),
            (cell.fault as usize, 300 + usize::from(cell.operation.is_stream())),
        ]
    };
    let mut missing: BTreeSet<_> = all.iter().flat_map(pairs).collect();
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let gain = |cell: &&Cell| pairs(cell).iter().filter(|pair| missing.contains(pair)).count();
        // Of those that are as good, another operation each time.
        let best = all.iter().map(|cell| gain(&cell)).max().unwrap_or_default();
        let equals: Vec<_> = all.iter().filter(|cell| gain(cell) == best).collect();
        let Some(cell) = equals.get(chosen.len() * 7 % equals.len().max(1)) else { break };
        for pair in pairs(cell) {
            missing.remove(&pair);
        }
        chosen.push(**cell);
    }
    chosen
}
