//! Traces as people see them: every form shows every step, whatever the texts are.
//!
//! The pictures and pages are left in the target directory's `tmp/trace`, to be looked at.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod lines;
mod page;
mod picture;
mod samples;

use settled_explorer::Trace;

#[test]
fn a_trace_is_read_back_as_it_was_written() {
    for (name, trace) in samples::all() {
        let written = serde_json::to_string(&trace).unwrap();
        assert_eq!(serde_json::from_str::<Trace>(&written).unwrap(), trace, "{name}");
    }
}

#[test]
fn the_samples_can_be_looked_at() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, trace) in samples::all() {
        std::fs::write(folder.join(format!("{name}.svg")), trace.svg()).unwrap();
        std::fs::write(folder.join(format!("{name}.html")), trace.html()).unwrap();
    }
}
