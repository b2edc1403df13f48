//! The fuzz targets, each for a second on new inputs, and on what is in the corpus. For longer:
//! `SETTLED_FUZZ_SECONDS=600 cargo test --release -p settled-fuzz --test targets NAME`.
//!
//! An input that a target fails on is made smaller and shown: as a file of the corpus it stays a test for ever.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use settled_fuzz::choices::Choices;
use settled_fuzz::{arguments, corpus, events, frames, header, ledger, messages, streams, texts};

/// The longest input, in bytes.
const LONGEST: usize = 1024;

/// How long each target is tried, unless the environment says otherwise.
const SECONDS: f64 = 1.0;

/// Tries a target on random inputs for as long as there is time.
fn fuzz(target: impl Fn(&[u8])) {
    let seconds = std::env::var("SETTLED_FUZZ_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap());
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let bytes = prop_oneof![vec(any::<u8>(), 0..64), vec(any::<u8>(), 0..LONGEST)];
    let mut inputs = 0;
    while Instant::now() < until {
        let tried = runner.run(&bytes, |bytes| {
            target(&bytes);
            Ok(())
        });
        if let Err(error) = tried {
            panic!("{error}");
        }
        inputs += 64;
    }
    println!("{inputs} inputs");
}

/// A target that takes its inputs from choices.
macro_rules! choosing {
    ($name:ident, $target:expr) => {
        #[test]
        fn $name() {
            fuzz($target);
        }
    };
}

/// A target of any bytes: on those of the corpus, on any, and on those of the corpus with changes.
macro_rules! parsing {
    ($name:ident, $corpus:literal, $target:expr) => {
        #[test]
        fn $name() {
            let texts = corpus::of($corpus);
            texts.iter().for_each(|text| $target(text));
            fuzz(|bytes| {
                $target(bytes);
                $target(&corpus::changed(&texts, &mut Choices::new(bytes)));
            });
        }
    };
}

choosing!(a_damaged_ledger_is_one_of_its_pasts_or_says_that_it_is_damaged, ledger::damaged);
choosing!(a_changed_snapshot_does_no_harm, ledger::changed_snapshot);
choosing!(however_arguments_are_spelled_what_means_the_same_has_one_fingerprint, arguments::spellings);

parsing!(json_in_any_form, "json", arguments::any_json);
parsing!(lines_of_mcp, "frames", frames::any_line);
parsing!(a_stream_is_relayed_byte_for_byte, "frames", frames::any_stream);
parsing!(server_sent_events, "events", events::any_events);
parsing!(segments_of_the_log, "segment", ledger::any_segment);
parsing!(snapshots, "snapshot", ledger::any_snapshot);
parsing!(frames_of_the_log_and_messages_between_processes, "frame", ledger::any_frame);
parsing!(settled_toml, "configuration", texts::configuration);
parsing!(descriptions_of_protocols, "description", texts::description);
parsing!(lines_of_a_history, "history", texts::history);
parsing!(traces, "trace", texts::trace);
parsing!(idempotency_keys, "header", header::idempotency_key);
parsing!(keys, "key", header::key);
parsing!(streams_of_language_models, "stream", streams::any_stream);
parsing!(stored_messages, "message", messages::any_message);
