//! A process of a replay as a program of its own, for tests: `settled-replay-part SPEC ROLE INCARNATION`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(spec), Some(role)) = (arguments.next(), arguments.next()) else {
        eprintln!("settled-replay-part SPEC ROLE INCARNATION: started by a replay");
        return ExitCode::from(2);
    };
    let incarnation = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    match settled_replay::part::run(std::path::Path::new(&spec), &role, incarnation) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(1)
        }
    }
}
