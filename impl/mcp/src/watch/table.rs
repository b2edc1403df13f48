//! What the guard would know of earlier calls, kept in memory.

use std::collections::HashMap;
use std::time::Duration;

use settled::ToolReply;
use settled_protocol::{Digest, Ends, ErrorClass, Key};
use tokio::time::Instant;

use crate::config::{Answers, Defaults};
use crate::guard::Terms;
use crate::keys::CallKey;

/// How many calls are remembered; beyond that, those that are over are forgotten first, then all.
const CALLS: usize = 1 << 16;

/// What the guard would have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Would {
    /// Sent it, recorded.
    Send,
    /// Passed it on: the tool is harmless as far as anybody says.
    Pass,
    /// Let it wait for the answer of the same call that was under way.
    Join,
    /// Answered it from the record.
    Replay,
    /// Refused it: its key was used with other arguments.
    Conflict,
    /// Not sent it, because it was not known whether the earlier call had happened.
    Hold,
    /// Refused it: it could not be told which operation it was.
    Refuse,
}

impl Would {
    pub(super) fn word(self) -> &'static str {
        match self {
            Would::Send => "sent",
            Would::Pass => "passed",
            Would::Join => "joined",
            Would::Replay => "replayed",
            Would::Conflict => "conflicted",
            Would::Hold => "held",
            Would::Refuse => "refused",
        }
    }
}

/// What an answer leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    Happened,
    DidNot,
    /// An error, after which it is not known.
    Error,
    /// No answer.
    Nothing,
}

impl From<ToolReply> for After {
    fn from(reply: ToolReply) -> After {
        match reply {
            ToolReply::Result(_) => After::Happened,
            ToolReply::Error(ErrorClass::NotRun, _) | ToolReply::Busy { .. } => After::DidNot,
            ToolReply::Error(..) => After::Error,
            ToolReply::ConnectionLost => After::Nothing,
        }
    }
}

/// How an operation would stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// Under way; from then on its outcome would count as unknown.
    Out { until: Instant },
    /// Answered from the record, until then.
    Recorded { until: Instant },
    /// Held for a person.
    Unknown,
}

struct Operation {
    fingerprint: Digest,
    number: u64,
    came: Instant,
    stands: Stands,
    ends: Ends,
    errors_final: bool,
    window: Duration,
    slow_answer: Duration,
    retry_doubt: Duration,
    answers: Answers,
}

/// What is remembered.
#[derive(Default)]
pub(super) struct Table {
    by_key: HashMap<Key, Operation>,
    /// Operations that are under way, by the number of their call.
    out: HashMap<u64, Key>,
}

impl Table {
    pub(super) fn called(
        &mut self,
        number: u64,
        found: CallKey,
        terms: &Terms,
        defaults: &Defaults,
        now: Instant,
    ) -> Would {
        if let Some(operation) = self.by_key.get(&found.key)
            && let Some(would) = operation.on_repeat(&found.fingerprint, now)
        {
            return would;
        }
        let policy = terms.policy(found.origin);
        let operation = Operation {
            fingerprint: found.fingerprint,
            number,
            came: now,
            stands: Stands::Out { until: now + terms.limits(found.origin).attempt },
            ends: policy.repeat.ends,
            errors_final: policy.errors_final,
            window: Duration::from_millis(policy.repeat.window.unwrap_or(u64::MAX)),
            slow_answer: defaults.slow_answer,
            retry_doubt: defaults.retry_doubt,
            answers: terms.declared.as_ref().map(|tool| tool.answers.clone()).unwrap_or_default(),
        };
        self.make_room(now);
        self.out.insert(number, found.key.clone());
        self.by_key.insert(found.key, operation);
        Would::Send
    }

    pub(super) fn answered(&mut self, number: u64, now: Instant, after: impl FnOnce(&Answers) -> After) {
        let Some(key) = self.out.remove(&number) else { return };
        let Some(operation) = self.by_key.get_mut(&key).filter(|operation| operation.number == number) else { return };
        let after = after(&operation.answers);
        match operation.once(after, now) {
            Some(stands) => operation.stands = stands,
            None => {
                self.by_key.remove(&key);
            }
        }
    }

    fn make_room(&mut self, now: Instant) {
        if self.by_key.len() < CALLS {
            return;
        }
        self.by_key.retain(|_, operation| operation.is_remembered(now));
        if self.by_key.len() >= CALLS {
            tracing::warn!("observed calls are forgotten: there are more than {CALLS}");
            self.by_key.clear();
        }
        let by_key = &self.by_key;
        self.out.retain(|_, key| by_key.contains_key(key));
    }
}

impl Operation {
    /// What the guard would do with another call of this key; `None`: it would be a new operation.
    fn on_repeat(&self, fingerprint: &Digest, now: Instant) -> Option<Would> {
        if !self.is_remembered(now) {
            return None;
        }
        if self.fingerprint != *fingerprint {
            return Some(Would::Conflict);
        }
        Some(match self.stands {
            Stands::Out { until } if now < until => Would::Join,
            Stands::Out { .. } | Stands::Unknown => Would::Hold,
            Stands::Recorded { .. } => Would::Replay,
        })
    }

    fn is_remembered(&self, now: Instant) -> bool {
        match self.stands {
            Stands::Recorded { until } => now < until,
            Stands::Out { .. } | Stands::Unknown => true,
        }
    }

    /// How it stands after its answer; `None`: the next call is a new operation.
    fn once(&self, after: After, now: Instant) -> Option<Stands> {
        let kept = Some(Stands::Recorded { until: later(now, self.window) });
        // A slow answer may have come too late for a client that gave up without saying so.
        let slow = now.duration_since(self.came) > self.slow_answer;
        let delivered = slow.then(|| Stands::Recorded { until: later(now, self.retry_doubt) });
        let did_not = match self.ends {
            Ends::WithWindow => kept,
            Ends::OnFailure => None,
            Ends::OnDelivery => delivered,
        };
        match after {
            After::Happened if self.ends == Ends::OnDelivery => delivered,
            After::Happened => kept,
            After::DidNot => did_not,
            After::Error if self.errors_final => did_not,
            After::Error if self.ends == Ends::OnDelivery => delivered,
            After::Error | After::Nothing => Some(Stands::Unknown),
        }
    }
}

fn later(now: Instant, span: Duration) -> Instant {
    // Far enough for a table in memory.
    now + span.min(Duration::from_secs(365 * 24 * 60 * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::guard::{Decision, enforced};
    use crate::keys::derive;

    /// A table, a configuration, and a clock that only the test moves.
    struct World {
        table: Table,
        config: Config,
        now: Instant,
        number: u64,
    }

    impl World {
        fn new(text: &str) -> World {
            let config = Config::parse("settled.toml".as_ref(), text).unwrap();
            World { table: Table::default(), config, now: Instant::now(), number: 0 }
        }

        fn call(&mut self, params: &str) -> Would {
            self.number += 1;
            let Decision::Guard(terms) = enforced(&self.config, "t", None) else { panic!("guarded") };
            let found = derive("s", "t", params, None, terms.rule()).unwrap();
            self.table.called(self.number, found, &terms, &self.config.defaults, self.now)
        }

        fn answer(&mut self, after: After) {
            self.table.answered(self.number, self.now, |_| after);
        }

        fn wait(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }
    }

    const A: &str = r#"{"arguments":{"a":1},"idempotencyKey":"k"}"#;
    const B: &str = r#"{"arguments":{"a":2},"idempotencyKey":"k"}"#;
    const PLAIN: &str = r#"{"arguments":{"a":1}}"#;

    #[test]
    fn a_key_of_the_callers_own() {
        let mut world = World::new("");
        assert_eq!(world.call(A), Would::Send);
        let sent = world.number;
        assert_eq!((world.call(A), world.call(B)), (Would::Join, Would::Conflict));
        world.table.answered(sent, world.now, |_| After::Happened);
        assert_eq!((world.call(A), world.call(B)), (Would::Replay, Would::Conflict));
        // The answer to a call that the guard would not have sent changes nothing.
        world.answer(After::Nothing);
        assert_eq!(world.call(A), Would::Replay);
        world.wait(24 * 60 * 60);
        assert_eq!(world.call(A), Would::Send);
        world.answer(After::DidNot);
        assert_eq!(world.call(A), Would::Replay);
    }

    #[test]
    fn derived_keys() {
        let mut world = World::new("");
        assert_eq!(world.call(PLAIN), Would::Send);
        world.answer(After::Happened);
        assert_eq!(world.call(PLAIN), Would::Send, "a new wish once the answer has arrived");
        world.wait(2);
        world.answer(After::Happened);
        assert_eq!(world.call(PLAIN), Would::Replay, "the answer was slow");
        world.wait(11);
        assert_eq!(world.call(PLAIN), Would::Send);
        world.answer(After::Nothing);
        world.wait(1_000_000);
        assert_eq!(world.call(PLAIN), Would::Hold);

        let mut world = World::new("[tools.t]\nrepeat = 'replay'\ntimeout = '1m'");
        assert_eq!(world.call(PLAIN), Would::Send);
        world.wait(59);
        assert_eq!(world.call(PLAIN), Would::Join);
        world.wait(1);
        assert_eq!(world.call(PLAIN), Would::Hold, "it would be unknown by now");
    }

    #[test]
    fn errors() {
        let mut world = World::new("[tools.t]\nrepeat = 'replay'");
        assert_eq!(world.call(PLAIN), Would::Send);
        world.answer(After::DidNot);
        assert_eq!(world.call(PLAIN), Would::Send);
        world.answer(After::Error);
        assert_eq!(world.call(PLAIN), Would::Hold);
        let mut world = World::new("[tools.t]\nrepeat = 'replay'\nerrors = 'final'");
        assert_eq!(world.call(PLAIN), Would::Send);
        world.answer(After::Error);
        assert_eq!(world.call(PLAIN), Would::Send);
    }

    #[test]
    fn memory_is_bounded() {
        let mut world = World::new("[tools.t]\nrepeat = 'replay'\nwindow = '10m'");
        for n in 0..CALLS {
            world.call(&format!(r#"{{"arguments":{{"n":{n}}}}}"#));
            world.answer(After::Happened);
        }
        assert_eq!(world.table.by_key.len(), CALLS);
        world.wait(600);
        world.call(PLAIN);
        assert_eq!((world.table.by_key.len(), world.table.out.len()), (1, 1));
    }
}
