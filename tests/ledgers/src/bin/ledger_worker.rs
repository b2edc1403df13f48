//! A guard as a process.

fn main() {
    settled_ledger_tests::worker::run();
}
