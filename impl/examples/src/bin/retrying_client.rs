//! The example MCP client: `retrying_client --timeout 600ms -- charge_server --effects FILE`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use settled_examples::retrying_client::{RetryingClientOptions, run};

/// An MCP client that charges a customer, and calls again when no answer comes
///
/// The exit status is 0 if the last attempt got a result that is not an error, 1 otherwise.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    options: RetryingClientOptions,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse().options).await {
        Ok(report) if report.succeeded() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            // Not `eprintln!`, which panics when standard error is closed.
            let _ = writeln!(io::stderr(), "retrying_client: {error}");
            ExitCode::FAILURE
        }
    }
}
