//! A guard as a process, which can be killed at any of its fault points, and whose disk can fail.

fn main() {
    settled_ledger_tests::worker::run();
}
