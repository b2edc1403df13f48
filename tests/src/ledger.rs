//! What the ledger says, as `settled log` and `settled resolve` show it.

use serde::Deserialize;
use serde_json::Value;

use crate::running::Ended;
use crate::stage::Stage;

/// One operation, as `settled log list --json` prints it.
#[derive(Clone, Debug, Deserialize)]
pub struct Operation {
    /// Its key.
    pub key: String,
    /// Its state's name.
    pub state: String,
    /// Its state in words.
    pub summary: String,
    /// What the client asked, as JSON text.
    pub asked: String,
    /// The tool's answer, as JSON text.
    pub answer: Option<String>,
}

impl Operation {
    /// It is settled: it happened.
    pub fn has_succeeded(&self) -> bool {
        self.summary == "succeeded"
    }

    /// It is settled: it did not happen.
    pub fn has_failed(&self) -> bool {
        self.summary.starts_with("failed")
    }

    /// What happened is not known.
    pub fn is_unknown(&self) -> bool {
        self.summary.starts_with("unknown")
    }

    /// The argument `cents` of the call.
    pub fn cents(&self) -> u64 {
        let asked: Value = serde_json::from_str(&self.asked).expect("what was asked is JSON");
        asked.pointer("/arguments/cents").and_then(Value::as_u64).expect("cents")
    }
}

impl Stage {
    /// All operations of the stage's ledger.
    #[track_caller]
    pub fn operations(&self) -> Vec<Operation> {
        let ledger = self.path("ledger");
        let ended = self.run(&self.settled(&["log", "list", "--json", "--ledger", ledger.to_str().expect("UTF-8")]));
        assert!(ended.status.success(), "settled log list: {ended:?}");
        serde_json::from_str(&ended.lines.join("\n")).expect("settled log list --json prints JSON")
    }

    /// The only operation of the stage's ledger.
    #[track_caller]
    pub fn operation(&self) -> Operation {
        let mut operations = self.operations();
        assert!(operations.len() == 1, "one operation expected: {operations:#?}");
        operations.remove(0)
    }

    /// A person decides: `settled resolve KEY --as …`.
    pub fn resolve(&self, key: &str, words: &[&str]) -> Ended {
        let ledger = self.path("ledger");
        let mut argv = self.settled(&["resolve", key, "--note", "looked at the books", "--ledger"]);
        argv.push(ledger.into());
        argv.extend(words.iter().map(std::ffi::OsString::from));
        self.run(&argv)
    }
}
