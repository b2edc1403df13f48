//! What was told, what is recorded and what happened, side by side.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use settled::{Entry, Filter, Ledger};
use settled_protocol::{Key, State, Verdict};
use settled_verify::{Effect, Evidence, verify};
use tokio::runtime::Runtime;

use super::guard::HISTORY;
use super::open::open;
use super::tool::{ToolServer, result};
use super::wire::{Answer, Request, Told};

/// A view of the ledger for the test itself.
pub struct Reader {
    runtime: Runtime,
    ledger: Arc<dyn Ledger>,
}

impl Reader {
    /// Opens the ledger.
    ///
    /// # Panics
    /// If it can't be opened.
    pub fn open(url: &str) -> Reader {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ledger = runtime.block_on(open(url)).unwrap();
        Reader { runtime, ledger }
    }

    /// The ledger.
    pub fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::clone(&self.ledger)
    }

    /// Waits for what is done with it.
    pub fn wait_for<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The entry of a key, if the ledger can be read now.
    pub fn try_get(&self, key: &Key) -> Option<Option<Entry>> {
        self.runtime.block_on(self.ledger.get(key)).ok()
    }

    /// The entry of a key.
    ///
    /// # Panics
    /// If the ledger can't be read for long.
    pub fn get(&self, key: &Key) -> Option<Entry> {
        for _ in 0..50 {
            if let Some(entry) = self.try_get(key) {
                return entry;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the ledger can't be read");
    }

    /// Waits until every operation is settled or with a person.
    ///
    /// # Panics
    /// If that doesn't come about.
    pub fn quiet(&self, within: Duration) {
        let until = Instant::now() + within;
        let mut left = Vec::new();
        while Instant::now() < until {
            if let Ok(entries) = self.runtime.block_on(self.ledger.scan(Filter::Unsettled)) {
                left = entries;
                left.retain(|entry| !matches!(entry.record.state(), State::Escalated { .. }));
                if left.is_empty() {
                    return;
                }
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("these don't settle: {:?}", left.iter().map(|e| (e.key.to_string(), e.record)).collect::<Vec<_>>());
    }
}

/// What is wrong, by its name; and how often callers were told what.
#[derive(Debug, Default)]
pub struct Truth {
    /// Acknowledged, and not recorded or not happened.
    pub losses: Vec<String>,
    /// Happened more than once.
    pub repeats: Vec<String>,
    /// Anything else that must not be.
    pub lies: Vec<String>,
    /// How many callers were told what.
    pub answers: BTreeMap<String, usize>,
    /// How many operations ended with a person.
    pub escalated: usize,
}

/// Compares. Nothing may be under way any more.
pub fn compare(reader: &Reader, tool: &ToolServer, told: &[(Request, Told)]) -> Truth {
    let mut happened: HashMap<Key, usize> = HashMap::new();
    for effect in tool.effects() {
        let request = Request { tool: effect.tool, id: effect.id, resource: effect.resource };
        *happened.entry(request.key()).or_default() += 1;
    }
    let mut truth = compare_with(reader, &happened, told);
    let judged = judge(reader, &tool.directory().join(HISTORY), &happened, true);
    truth.lies.extend(judged.and_then(|lines| if lines > 0 { Ok(()) } else { Err("no history".to_owned()) }).err());
    truth
}

/// Has the verifier judge a history of all guards, with the ledger and the effects (if it is known that there were no others).
/// Returns how many lines the history has.
///
/// # Errors
/// What it finds, or why it can't judge.
pub fn judge<'a>(
    reader: &Reader,
    history: &Path,
    effects: impl IntoIterator<Item = (&'a Key, &'a usize)>,
    effects_known: bool,
) -> Result<u64, String> {
    let one = |key: &Key| Effect {
        key: key.clone(),
        generation: None,
        attempt: None,
        resource: None,
        begun: None,
        ended: None,
    };
    let evidence = Evidence {
        histories: vec![history.to_owned()],
        ledger: Some(reader.ledger()),
        effects: effects.into_iter().flat_map(|(key, times)| vec![one(key); *times]).collect(),
        effects_known,
        ended: true,
    };
    match reader.wait_for(verify(&evidence)) {
        Ok(report) if !report.is_violated() => Ok(report.lines),
        Ok(report) => Err(report.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Compares with the effects that there were.
pub fn compare_with(reader: &Reader, effects: &HashMap<Key, usize>, told: &[(Request, Told)]) -> Truth {
    let mut truth = Truth::default();
    let mut by_key: HashMap<Key, Vec<&Told>> = effects.keys().map(|key| (key.clone(), Vec::new())).collect();
    for (request, told) in told {
        *truth.answers.entry(format!("{:?}", told.answer)).or_default() += 1;
        by_key.entry(request.key()).or_default().push(told);
    }
    for (key, told) in by_key {
        let happened = effects.get(&key).copied().unwrap_or_default();
        let entry = reader.get(&key);
        let state = entry.as_ref().map(|entry| *entry.record.state());
        let seen = format!("{key}: {happened} effects, told {told:?}, recorded {state:?}");
        if happened > 1 {
            truth.repeats.push(seen.clone());
        }
        if told.iter().filter(|told| told.answer == Answer::Done && !told.replayed).count() > 1 {
            truth.lies.push(format!("two are told that theirs was the first: {seen}"));
        }
        for told in told {
            let outcome = entry.as_ref().and_then(|entry| entry.outcome.clone()).unwrap_or_default();
            match told.answer {
                Answer::Done => {
                    let kept = outcome == told.body && told.body == result(key.id());
                    let succeeded = matches!(state, Some(State::Settled { verdict: Verdict::Succeeded(_), .. }));
                    if !(kept && succeeded && happened == 1) {
                        truth.losses.push(seen.clone());
                    }
                }
                Answer::Failed if happened > 0 => truth.lies.push(format!("a false failure: {seen}")),
                Answer::Failed | Answer::NotSent => {}
                Answer::Unknown if state.is_none() => truth.losses.push(seen.clone()),
                Answer::Unknown => {}
                _ => truth.lies.push(format!("nobody should be told that: {seen}")),
            }
        }
        match state {
            None if happened > 0 => truth.lies.push(format!("an effect without a record: {seen}")),
            Some(State::Settled { verdict: Verdict::Succeeded(_), .. }) if happened == 0 => {
                truth.lies.push(format!("a phantom success: {seen}"));
            }
            Some(State::Settled { verdict: Verdict::Failed(_), .. }) if happened > 0 => {
                truth.lies.push(format!("recorded as failed: {seen}"));
            }
            Some(State::Escalated { .. }) => truth.escalated += 1,
            _ => {}
        }
    }
    truth
}
