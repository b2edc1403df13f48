//! A tool as a process, which can be killed at any of its fault points. Its arguments: its socket, and the file of its effects.
#![allow(clippy::expect_used)] // a part of the tests

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(std::path::PathBuf::from);
    let (Some(socket), Some(effects)) = (arguments.next(), arguments.next()) else {
        panic!("the socket and the file of the effects");
    };
    settled_sweeps::tool::serve(&socket, &effects);
}
