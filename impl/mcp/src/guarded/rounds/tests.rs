//! Every sequence of calls in different rounds and of what the tool makes of them, up to a length, through the protocol core:
//! with the rule for rounds, and without it, to see that it is needed.

use settled_protocol::{
    Action, Digest, Ends, Epoch, ErrorClass, Event, Key, Loss, Policy, Record, Reply, Start, Time, ToolKind, What,
};

use super::{Last, policy};
use crate::guarded::keys::{CallKey, Origin, Round};

/// How many calls one after the other.
const LENGTH: usize = 4;

/// What the tool makes of a call that reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Asks,
    Does,
    Refuses,
    /// It does it, and its answer is lost.
    IsLost,
}

const TOOLS: [Tool; 4] = [Tool::Asks, Tool::Does, Tool::Refuses, Tool::IsLost];

type Rule = fn(Policy, &CallKey, Option<&Last>) -> Policy;

#[derive(Clone)]
struct World {
    record: Option<Record<Digest>>,
    last: Option<Last>,
    now: u64,
    story: Vec<(usize, Tool, bool)>,
    /// What is wrong with it.
    broken: Vec<&'static str>,
}

fn found(round: usize) -> CallKey {
    CallKey {
        key: Key::new("s", "t", "k").unwrap(),
        fingerprint: Digest::of(b"arguments"),
        origin: Origin::Parameter,
        own: None,
        round: if round == 0 { Round::First } else { Round::Later(Digest::of(&[u8::try_from(round).unwrap()])) },
    }
}

impl World {
    fn event(&mut self, what: What<Digest>) -> Event<Digest> {
        self.now += 1;
        Event { now: Time(self.now), by: Epoch(1), draw: 0, what }
    }

    /// A call in this round, and the tool's answer if it is sent.
    fn call(&self, base: Policy, rule: Rule, round: usize, tool: Tool) -> World {
        let mut world = self.clone();
        let found = found(round);
        let policy = rule(base, &found, world.last.as_ref());
        let event = world.event(What::Call { fingerprint: found.fingerprint, start: Start::Now });
        let step = policy.step(world.record.as_ref(), &event);
        let of = step.actions.iter().find_map(|action| match action {
            Action::Dispatch(dispatch) => Some(dispatch.of()),
            _ => None,
        });
        let waited = self.last.as_ref().is_some_and(|last| last.waits_for_input);
        let is_same = self.last.as_ref().is_some_and(|last| last.round.as_ref() == Some(&found.round));
        let had_effect = self.story.iter().any(|(_, tool, sent)| *sent && matches!(tool, Tool::Does | Tool::IsLost));
        let last_did = self.story.iter().rev().find(|(.., sent)| *sent).map(|(_, tool, _)| *tool);
        let may_have_happened = match base.repeat.ends {
            // Any other call is a new wish once an answer has arrived.
            Ends::OnDelivery => is_same && round > 0 && last_did == Some(Tool::Does),
            Ends::WithWindow | Ends::OnFailure => had_effect,
        };
        if of.is_some() && may_have_happened {
            world.broken.push("sent although it may have happened");
        }
        if of.is_some() && last_did == Some(Tool::IsLost) {
            world.broken.push("sent although nobody knows");
        }
        let had_failed = self.story.iter().any(|(_, tool, sent)| *sent && *tool == Tool::Refuses);
        if of.is_some() && had_failed && base.repeat.ends == Ends::WithWindow {
            world.broken.push("sent although it has failed for good");
        }
        if of.is_none() && waited && !is_same && round > 0 {
            world.broken.push("a round is taken for a duplicate");
        }
        world.story.push((round, tool, of.is_some()));
        world.record = step.record;
        let Some(of) = of else { return world };
        let handle = Digest::of(b"answer");
        let what = match tool {
            Tool::Does => What::Reply { of, reply: Reply::Result(handle) },
            Tool::Asks | Tool::Refuses => What::Reply { of, reply: Reply::Error(ErrorClass::NotRun, handle) },
            Tool::IsLost => What::Lost { of, how: Loss::ConnectionLost },
        };
        let event = world.event(what);
        world.record = policy.step(world.record.as_ref(), &event).record;
        if base.repeat.ends == Ends::OnDelivery && tool != Tool::IsLost {
            let generation = of.generation;
            let event = world.event(What::Delivered { generation, from: Time(world.now) });
            world.record = base.step(world.record.as_ref(), &event).record;
        }
        world.last = Some(Last {
            fingerprint: found.fingerprint,
            round: Some(found.round),
            waits_for_input: tool == Tool::Asks,
        });
        world
    }
}

/// Every way that it can go wrong, with the shortest story of each; and how many stories there are.
fn explore(ends: Ends, rule: Rule) -> (Vec<(&'static str, usize)>, usize) {
    let mut base = Policy::new(ToolKind::Opaque);
    base.repeat.ends = ends;
    let start = World { record: None, last: None, now: 1_000, story: Vec::new(), broken: Vec::new() };
    let (mut worlds, mut found, mut count) = (vec![start], Vec::new(), 0);
    for length in 1..=LENGTH {
        let mut next = Vec::new();
        for world in &worlds {
            for (round, tool) in (0..3).flat_map(|round| TOOLS.map(|tool| (round, tool))) {
                let world = world.call(base, rule, round, tool);
                count += 1;
                for what in &world.broken {
                    if !found.iter().any(|(known, _)| known == what) {
                        found.push((*what, length));
                    }
                }
                // What the tool would have made of a call that was not sent makes no difference.
                let counts = world.story.last().is_some_and(|(_, tool, sent)| *sent || *tool == Tool::Asks);
                if counts && world.broken.is_empty() {
                    next.push(world);
                }
            }
        }
        worlds = next;
    }
    (found, count)
}

#[test]
fn no_sequence_of_rounds_goes_wrong() {
    for ends in [Ends::WithWindow, Ends::OnFailure, Ends::OnDelivery] {
        let (found, count) = explore(ends, policy);
        assert_eq!(found, [], "{ends:?}");
        assert!(count > 1_000, "{ends:?}: {count}");
    }
}

#[test]
fn without_the_rule_or_with_a_looser_one_some_do() {
    let none: Rule = |policy, _, _| policy;
    // The caller's own key: the question is replayed for ever.
    assert_eq!(explore(Ends::WithWindow, none).0, [("a round is taken for a duplicate", 2)]);
    // A key of arguments: a round that is repeated after its answer is a new wish.
    assert_eq!(explore(Ends::OnDelivery, none).0, [("sent although it may have happened", 2)]);
    // A rule that lets every other round go on, also when nothing is asked any more.
    let loose: Rule = |mut policy, found, last| {
        if last.is_some_and(|last| last.round.as_ref() != Some(&found.round)) {
            policy.repeat.ends = Ends::OnFailure;
        }
        policy
    };
    assert_eq!(explore(Ends::WithWindow, loose).0, [("sent although it has failed for good", 2)]);
}
