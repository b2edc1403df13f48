use super::*;
use crate::config::Config;
use crate::guarded::guard::{Decision, enforced};
use crate::guarded::keys::derive;

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

fn happened() -> After {
    After::Reply(Reply::Result(Digest::of(b"result")))
}

fn did_not() -> After {
    After::Reply(Reply::Error(ErrorClass::NotRun, Digest::of(b"error")))
}

fn error() -> After {
    After::Reply(Reply::Error(ErrorClass::Unproven, Digest::of(b"error")))
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
    world.table.answered(sent, world.now, |_| happened());
    assert_eq!((world.call(A), world.call(B)), (Would::Replay, Would::Conflict));
    // The answer to a call that the guard would not have sent changes nothing.
    world.answer(After::Nothing);
    assert_eq!(world.call(A), Would::Replay);
    // Such a key never means two operations: at first it is too old, and much later it is forgotten.
    world.wait(24 * 60 * 60 + 1);
    assert_eq!((world.call(A), world.call(B)), (Would::Expire, Would::Expire));
    world.wait(30 * 24 * 60 * 60);
    assert_eq!(world.call(A), Would::Send);
    world.answer(did_not());
    assert_eq!(world.call(A), Would::Replay);
}

#[test]
fn derived_keys() {
    let mut world = World::new("");
    assert_eq!(world.call(PLAIN), Would::Send);
    world.answer(happened());
    assert_eq!(world.call(PLAIN), Would::Send, "a new wish once the answer has arrived");
    world.wait(2);
    world.answer(happened());
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
    world.answer(did_not());
    assert_eq!(world.call(PLAIN), Would::Send);
    world.answer(error());
    assert_eq!(world.call(PLAIN), Would::Hold);
    let mut world = World::new("[tools.t]\nrepeat = 'replay'\nerrors = 'final'");
    assert_eq!(world.call(PLAIN), Would::Send);
    world.answer(error());
    assert_eq!(world.call(PLAIN), Would::Send);
}

#[test]
fn memory_is_bounded() {
    let mut world = World::new("[tools.t]\nrepeat = 'replay'\nwindow = '10m'");
    for n in 0..OPERATIONS {
        world.call(&format!(r#"{{"arguments":{{"n":{n}}}}}"#));
        world.answer(happened());
    }
    assert_eq!(world.table.by_key.len(), OPERATIONS);
    world.wait(601);
    world.call(PLAIN);
    assert_eq!((world.table.by_key.len(), world.table.out.len()), (1, 1));
}

/// A round of a call, with this answer to what the tool has asked.
fn round(own: &str, answer: u32) -> String {
    format!(r#"{{"arguments":{{"a":1}}{own},"requestState":"s","inputResponses":{{"n":{answer}}}}}"#)
}

#[test]
fn a_round_is_no_duplicate_and_a_repeated_one_is() {
    for (own, config) in [
        (r#","idempotencyKey":"k""#, ""),
        ("", "[tools.t]\nrepeat = 'replay'"),
        ("", "[tools.t]\nrepeat = 'new-after-delivery'"),
    ] {
        let mut world = World::new(config);
        let first = format!(r#"{{"arguments":{{"a":1}}{own}}}"#);
        assert_eq!(world.call(&first), Would::Send, "{own} {config}");
        world.answer(After::Question);
        assert_eq!(world.call(&round(own, 1)), Would::Send, "{own} {config}");
        let sent = world.number;
        assert_eq!(world.call(&round(own, 1)), Would::Join, "{own} {config}");
        world.table.answered(sent, world.now, |_| happened());
        assert_eq!(world.call(&round(own, 1)), Would::Replay, "{own} {config}");
    }
    let mut world = World::new("[tools.t]\nrepeat = 'replay'");
    let params = round("", 1);
    assert_eq!(world.call(PLAIN), Would::Send);
    world.answer(After::Question);
    assert_eq!(world.call(&params), Would::Send);
    world.answer(After::Nothing);
    assert_eq!(
        (world.call(&params), world.call(&round("", 2)), world.call(PLAIN)),
        (Would::Hold, Would::Hold, Would::Hold)
    );
}

#[test]
fn a_late_answer_settles_what_was_held() {
    let mut world = World::new("[tools.t]\nrepeat = 'replay'\ntimeout = '1m'");
    assert_eq!(world.call(PLAIN), Would::Send);
    world.wait(61);
    let sent = world.number;
    assert_eq!(world.call(PLAIN), Would::Hold);
    world.table.answered(sent, world.now, |_| happened());
    assert_eq!(world.call(PLAIN), Would::Replay);
}
