//! A client of our own that speaks raw JSON-RPC: fast to start, and free to say anything.

use std::ffi::OsString;

use serde_json::{Value, json};

use crate::process::Process;
use crate::running::{Ended, Running};
use crate::stage::Stage;

/// A session with a command.
pub struct Session {
    running: Running,
    next: u64,
    kept: Vec<Value>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A result that is not an error.
    Success(Value),
    /// A result that is an error of the tool.
    Failure(Value),
    /// A JSON-RPC error.
    Error(Value),
    /// The other side ended.
    Gone,
}

impl Reply {
    /// What an answer says.
    ///
    /// # Panics
    /// If it is none.
    pub fn of(message: &Value) -> Reply {
        match (message.get("result"), message.get("error")) {
            (Some(result), _) if result.get("isError") == Some(&Value::Bool(true)) => Reply::Failure(result.clone()),
            (Some(result), _) => Reply::Success(result.clone()),
            (None, Some(error)) => Reply::Error(error.clone()),
            (None, None) => panic!("neither result nor error: {message}"),
        }
    }

    fn body(&self) -> &Value {
        match self {
            Reply::Success(body) | Reply::Failure(body) | Reply::Error(body) => body,
            Reply::Gone => &Value::Null,
        }
    }

    /// The texts of a result, or an error's message.
    pub fn text(&self) -> String {
        let body = self.body();
        if let Some(message) = body.get("message").and_then(Value::as_str) {
            return message.to_owned();
        }
        let blocks = body.get("content").and_then(Value::as_array).into_iter().flatten();
        blocks.filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The proxy's mark: its status, or "".
    pub fn status(&self) -> &str {
        self.mark("status").as_str().unwrap_or_default()
    }

    /// The proxy's mark: `replayed`.
    pub fn is_replayed(&self) -> bool {
        self.mark("replayed") == &Value::Bool(true)
    }

    fn mark(&self, member: &str) -> &Value {
        let place = if matches!(self, Reply::Error(_)) { "data" } else { "_meta" };
        self.body().get(place).and_then(|place| place.get("io.settled/status")?.get(member)).unwrap_or(&Value::Null)
    }

    /// The receipt, if it is a success: the line of its effect.
    pub fn receipt(&self) -> Option<String> {
        matches!(self, Reply::Success(_)).then(|| self.text())
    }

    /// In one word.
    pub fn word(&self) -> &str {
        match self {
            Reply::Success(_) => "done",
            Reply::Failure(_) | Reply::Error(_) if !self.status().is_empty() => self.status(),
            Reply::Failure(_) => "isError",
            Reply::Error(_) => "error",
            Reply::Gone => "gone",
        }
    }
}

impl Session {
    /// Starts a command.
    pub fn start(stage: &Stage, command: &[OsString]) -> Session {
        Session::start_with(stage, command, &[])
    }

    /// Starts a command with some variables more.
    pub fn start_with(stage: &Stage, command: &[OsString], more: &[(&str, &str)]) -> Session {
        Session { running: stage.start_with(command, more), next: 1, kept: Vec::new() }
    }

    /// Starts a command and opens the session.
    #[track_caller]
    pub fn open(stage: &Stage, command: &[OsString]) -> Session {
        let mut session = Session::start(stage, command);
        let reply = session.initialize();
        assert!(matches!(reply, Reply::Success(_)), "{reply:?}\n{}", session.running.stderr());
        session
    }

    /// The process on the other side.
    pub fn process(&self) -> Process {
        Process::find(self.running.pid()).expect("the other side runs")
    }

    /// Opens the session.
    pub fn initialize(&mut self) -> Reply {
        let client = json!({ "name": "raw", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        let id = self.ask("initialize", &params);
        let reply = self.reply(id);
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        reply
    }

    fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Writes bytes as they are. Whether they are taken shows in the answers.
    pub fn write(&mut self, bytes: &[u8]) {
        let _ = self.running.write(bytes);
    }

    /// Sends a request; returns its id.
    pub fn ask(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Sends a tool call; returns its id.
    pub fn ask_tool(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub fn reply(&mut self, id: u64) -> Reply {
        let is_it = |message: &Value| message.get("id") == Some(&Value::from(id));
        if let Some(place) = self.kept.iter().position(is_it) {
            return Reply::of(&self.kept.remove(place));
        }
        while let Some(line) = self.running.next_line() {
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if is_it(&message) {
                return Reply::of(&message);
            }
            self.kept.push(message);
        }
        Reply::Gone
    }

    /// Calls a tool.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Reply {
        let id = self.ask_tool(tool, arguments);
        self.reply(id)
    }

    /// Charges alice 500 cents.
    #[track_caller]
    pub fn charge(&mut self) -> Reply {
        self.call("charge", &json!({ "customer": "alice", "cents": 500 }))
    }

    /// The next line as it came, whatever it is.
    #[track_caller]
    pub fn next_bytes(&mut self) -> Option<Vec<u8>> {
        self.running.next_bytes()
    }

    /// Closes the session and waits for the other side's end.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        self.running.close_input();
        self.running.wait()
    }

    /// Kills the other side.
    #[track_caller]
    pub fn kill(self) -> Option<Ended> {
        self.running.kill()
    }
}
