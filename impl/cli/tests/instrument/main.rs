//! `settled`’s commands around the model, as a user meets them: exit codes, tables, files, errors.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod check;
mod diff;
mod documented;
mod explore;
mod listings;
mod suggest;

use std::path::Path;
use std::process::{Command, Output};

fn settled(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_settled")).args(arguments).current_dir(directory).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
