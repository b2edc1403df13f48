//! What really happened, as no guard can know it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use settled::protocol::{AttemptId, Digest, Ends, Epoch, Key, Millis, Record, State, Time, Verdict, Version};
use settled::{Answer, Change, Entry, Happened, HistoryLine};

use crate::plan::{Kind, Plan};
use crate::violation::Property;

/// An effect.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) key: Key,
    pub(crate) of: AttemptId,
    pub(crate) tool: usize,
    pub(crate) asked: Bytes,
    pub(crate) receipt: Bytes,
    pub(crate) resource: Option<String>,
    pub(crate) begun: Millis,
    pub(crate) at: Millis,
}

/// An effect as it counts.
pub(crate) struct Counted {
    pub(crate) key: Key,
    pub(crate) generation: u32,
    pub(crate) attempt: Option<u32>,
    pub(crate) resource: Option<String>,
    pub(crate) begun: Millis,
    pub(crate) at: Millis,
}

/// What a caller was told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) key: Key,
    pub(crate) tool: usize,
    pub(crate) asked: Bytes,
    pub(crate) generation: u32,
    pub(crate) at: Millis,
    /// It was asked when everything had ended.
    pub(crate) audit: bool,
    pub(crate) answer: Answer,
}

/// What the ledger holds of a key.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) version: Version,
    pub(crate) state: &'static str,
    /// From when on it may be forgotten.
    pub(crate) keep_until: Option<Time>,
    /// A request to forget it may be on its way.
    pub(crate) forgetting: bool,
}

/// All of it.
#[derive(Default)]
pub(crate) struct Truth {
    pub(crate) effects: Vec<Effect>,
    pub(crate) told: Vec<Told>,
    pub(crate) held: BTreeMap<Key, Held>,
    /// The latest attempt that is durably recorded as dispatched, of each key.
    pub(crate) intents: BTreeMap<Key, AttemptId>,
    /// The latest attempt of each operation that is durably recorded as dispatched by each owner.
    pub(crate) owned: BTreeMap<(Key, Epoch, u32), AttemptId>,
    /// Which operation began when, by its record.
    pub(crate) created: BTreeMap<(Key, Millis), u32>,
    /// The attempts that processes have out: what they wait with may still be sent.
    pub(crate) out: BTreeMap<(Key, u32, u32), Epoch>,
    /// Which operation each key stands for that a tool was given.
    pub(crate) passed: BTreeMap<String, (Key, u32)>,
    /// The attempts that may still take effect.
    pub(crate) possible: BTreeSet<(Key, AttemptId)>,
    /// Up to which attempt each operation is sealed at its tool.
    pub(crate) sealed: BTreeMap<(Key, u32), u32>,
    /// The operations that a tool has rejected, and remembers.
    pub(crate) rejected: BTreeSet<(Key, u32)>,
    /// How many attempts of each operation were sent.
    pub(crate) sent: BTreeMap<(Key, u32), u32>,
    /// Calls that were cancelled before they were sent.
    pub(crate) cancelled: Vec<Key>,
    /// Operations that a person gave up.
    pub(crate) abandoned: BTreeSet<Key>,
    pub(crate) sends: u64,
    pub(crate) calls: u64,
}

impl Truth {
    fn intended(&mut self, key: &Key, record: &Record<Digest>) {
        self.created.insert((key.clone(), record.created().0), record.generation());
        let Some(of) = record.attempt_id() else { return };
        let latest = self.intents.entry(key.clone()).or_insert(of);
        *latest = (*latest).max(of);
        if let State::Dispatched(sent) = record.state() {
            let latest = self.owned.entry((key.clone(), sent.owner(), of.generation)).or_insert(of);
            *latest = (*latest).max(of);
        }
    }

    /// A process has recorded something.
    pub(crate) fn heard(&mut self, line: &HistoryLine) {
        let Some(key) = &line.key else { return };
        match &line.what {
            Happened::Sent { generation, attempt, epoch, .. } => {
                self.out.insert((key.clone(), *generation, *attempt), *epoch);
            }
            Happened::Replied { generation, attempt, .. } => {
                self.out.remove(&(key.clone(), *generation, *attempt));
            }
            // One that timed out is still waited for.
            Happened::Lost { generation, attempt, how, .. } if how != "timed out" => {
                self.out.remove(&(key.clone(), *generation, *attempt));
            }
            _ => {}
        }
    }

    /// The ledger has made a change. Returns the state before it, if that is known.
    pub(crate) fn stored(&mut self, change: &Change) -> Option<&'static str> {
        let record = &change.record;
        self.intended(&change.key, record);
        if let State::Settled { verdict: Verdict::Abandoned(_), sent: Some(_), .. } = record.state() {
            self.abandoned.insert(change.key.clone());
        }
        let held = Held {
            version: record.version(),
            state: record.state().name(),
            keep_until: change.keep_until,
            forgetting: false,
        };
        match self.held.get_mut(&change.key) {
            // News of it can come in another order than it happened in.
            Some(before) if before.version >= held.version => None,
            Some(before) => {
                let known = (Some(before.version) == change.expected).then_some(before.state);
                *before = held;
                known
            }
            None => {
                self.held.insert(change.key.clone(), held);
                change.expected.is_none().then_some("absent")
            }
        }
    }

    /// Takes note of what a newly opened ledger holds: all that was acknowledged, and perhaps what nobody had word of. Returns
    /// what it lacks.
    pub(crate) fn found(&mut self, entries: &[Entry]) -> Option<String> {
        let versions: BTreeMap<&Key, Version> =
            entries.iter().map(|entry| (&entry.key, entry.record.version())).collect();
        let lacks = self.held.iter().filter(|(_, held)| !held.forgetting).find_map(|(key, held)| {
            let found = versions.get(key);
            (found < Some(&held.version))
                .then(|| format!("{key} was acknowledged in version {}, and is there in {found:?}", held.version))
        });
        let before = std::mem::take(&mut self.held);
        for entry in entries {
            let record = &entry.record;
            self.intended(&entry.key, record);
            let held = Held {
                version: record.version(),
                state: record.state().name(),
                keep_until: entry.keep_until,
                forgetting: before.get(&entry.key).is_some_and(|held| held.forgetting),
            };
            self.held.insert(entry.key.clone(), held);
        }
        lacks
    }

    /// The effects as they count: those of one operation of an idempotent tool are one.
    pub(crate) fn as_one(&self, plan: &Plan) -> Vec<Counted> {
        let mut counted: Vec<Counted> = Vec::new();
        for effect in &self.effects {
            let merges = plan.tools.get(effect.tool).is_some_and(|tool| tool.kind == Kind::Idempotent);
            let same = counted
                .iter_mut()
                .find(|before| merges && before.key == effect.key && before.generation == effect.of.generation);
            if let Some(before) = same {
                (before.begun, before.at) = (before.begun.min(effect.begun), before.at.max(effect.at));
                before.attempt = None;
                continue;
            }
            counted.push(Counted {
                key: effect.key.clone(),
                generation: effect.of.generation,
                attempt: Some(effect.of.attempt.get()),
                resource: effect.resource.clone(),
                begun: effect.begun,
                at: effect.at,
            });
        }
        counted
    }

    /// The effects of an operation.
    pub(crate) fn effects_of(&self, key: &Key, generation: u32) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(move |effect| effect.key == *key && effect.of.generation == generation)
    }

    /// Everything that is not as it must be once all has ended.
    pub(crate) fn check(&self, plan: &Plan) -> Vec<(Property, String)> {
        let mut wrong = Vec::new();
        self.check_effects(plan, &mut wrong);
        self.check_told(plan, &mut wrong);
        self.check_audit(plan, &mut wrong);
        self.check_overlap(&mut wrong);
        wrong
    }

    fn check_effects(&self, plan: &Plan, wrong: &mut Vec<(Property, String)>) {
        let (mut operations, mut keys) = (BTreeMap::new(), BTreeMap::new());
        for effect in &self.effects {
            let Some(tool) = plan.tools.get(effect.tool) else { continue };
            if matches!(tool.kind, Kind::Idempotent | Kind::ReadOnly) {
                continue;
            }
            *operations.entry((&effect.key, effect.of.generation)).or_insert(0) += 1;
            // Where nothing but the window ends an operation, a key has one, unless a person gave it up.
            let one = match tool.ends {
                Ends::WithWindow => true,
                Ends::OnFailure => !self.abandoned.contains(&effect.key),
                Ends::OnDelivery => false,
            };
            if one {
                *keys.entry(&effect.key).or_insert(0) += 1;
            }
        }
        for ((key, generation), effects) in operations.into_iter().filter(|(_, effects)| *effects > 1) {
            wrong.push((Property::AtMostOnce, format!("operation {generation} of {key} has {effects} effects")));
        }
        for (key, effects) in keys.into_iter().filter(|(_, effects)| *effects > 1) {
            wrong.push((Property::AtMostOnce, format!("{key} has {effects} effects")));
        }
        for key in &self.cancelled {
            let always =
                tool_of(key).and_then(|tool| plan.tools.get(tool)).is_some_and(|tool| tool.ends == Ends::WithWindow);
            if always && self.effects.iter().any(|effect| effect.key == *key) {
                wrong.push((Property::NoFalseFailure, format!("{key} was cancelled unsent, and has an effect")));
            }
        }
        for ((key, generation), sent) in &self.sent {
            let tool = tool_of(key).and_then(|tool| plan.tools.get(tool));
            if tool.is_some_and(|tool| *sent > tool.attempts) {
                wrong
                    .push((Property::BoundedRetries, format!("operation {generation} of {key} was sent {sent} times")));
            }
        }
    }

    fn check_told(&self, plan: &Plan, wrong: &mut Vec<(Property, String)>) {
        let mut first: BTreeMap<(&Key, u32), &Bytes> = BTreeMap::new();
        for told in &self.told {
            let Told { key, generation, at, .. } = told;
            let kind = plan.tools.get(told.tool).map(|tool| tool.kind);
            if kind == Some(Kind::ReadOnly) {
                continue;
            }
            match &told.answer {
                Answer::Done { result, .. } => {
                    let seen = first.entry((key, *generation)).or_insert(result);
                    if *seen != result {
                        wrong.push((Property::FaithfulReplay, format!("{key} was answered {seen:?} and {result:?}")));
                    }
                    match self.effects_of(key, *generation).find(|effect| effect.receipt == *result) {
                        None => wrong.push((
                            Property::NoPhantomSuccess,
                            format!("operation {generation} of {key} was told to be done: {result:?}"),
                        )),
                        Some(effect) if effect.at > *at => wrong.push((
                            Property::NoPhantomSuccess,
                            format!("operation {generation} of {key} was told to be done before it was"),
                        )),
                        Some(effect) if effect.asked != told.asked => wrong.push((
                            Property::FaithfulReplay,
                            format!(
                                "{key} was asked for with {:?}, and answered with what {:?} gave",
                                told.asked, effect.asked
                            ),
                        )),
                        Some(_) => {}
                    }
                }
                Answer::Failed { .. } => {
                    let effects = match *generation {
                        0 => self.effects.iter().filter(|effect| effect.key == *key).count(),
                        generation => self.effects_of(key, generation).count(),
                    };
                    if effects > 0 {
                        wrong.push((
                            Property::NoFalseFailure,
                            format!(
                                "operation {generation} of {key} was told to have failed, and has {effects} effects"
                            ),
                        ));
                    }
                }
                Answer::Unknown { .. } | Answer::InProgress | Answer::Conflict | Answer::Expired => {}
            }
        }
    }

    /// When all has ended, whoever asks is told what was told before.
    fn check_audit(&self, plan: &Plan, wrong: &mut Vec<(Property, String)>) {
        for (n, late) in self.told.iter().enumerate().filter(|(_, told)| told.audit) {
            let Some(tool) = plan.tools.get(late.tool) else { continue };
            if tool.ends != Ends::WithWindow || tool.window.is_some() {
                continue;
            }
            let before = self.told.iter().take(n).find(|told| {
                told.key == late.key
                    && told.asked == late.asked
                    && matches!(told.answer, Answer::Done { .. } | Answer::Failed { .. })
            });
            let same = match (before.map(|told| &told.answer), &late.answer) {
                (None, _) => true,
                (Some(Answer::Done { result, .. }), Answer::Done { result: now, .. }) => result == now,
                (Some(Answer::Failed { .. }), Answer::Failed { .. }) => true,
                _ => false,
            };
            if !same {
                wrong.push((
                    Property::FaithfulReplay,
                    format!(
                        "{} was answered {:?}, and in the end {:?}",
                        late.key,
                        before.map(|told| &told.answer),
                        late.answer
                    ),
                ));
            }
        }
    }

    fn check_overlap(&self, wrong: &mut Vec<(Property, String)>) {
        let mut spans: BTreeMap<(&str, &Key, u32), (Millis, Millis)> = BTreeMap::new();
        for effect in &self.effects {
            let Some(resource) = &effect.resource else { continue };
            let span = spans.entry((resource, &effect.key, effect.of.generation)).or_insert((effect.begun, effect.at));
            *span = (span.0.min(effect.begun), span.1.max(effect.at));
        }
        let mut spans: Vec<_> = spans.into_iter().collect();
        spans.sort_by_key(|((resource, ..), span)| (*resource, *span));
        for pair in spans.windows(2) {
            let [((resource, key, _), (_, end)), ((next, other, _), (begin, _))] = pair else { continue };
            if resource == next && begin < end {
                wrong.push((Property::NoOverlap, format!("effects of {key} and {other} on {resource} overlap")));
            }
        }
    }
}

/// Which tool a key is of.
pub(crate) fn tool_of(key: &Key) -> Option<usize> {
    key.tool().strip_prefix("tool-")?.parse().ok()
}

/// Which wish a key is of.
pub(crate) fn wish_of(key: &Key) -> Option<u32> {
    key.id().strip_prefix("wish-")?.parse().ok()
}
