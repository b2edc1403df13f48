//! The example MCP server `shop`: `charge_server --effects FILE`, to be started by an MCP client.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use settled_examples::charge_server::{ChargeServerOptions, run};

/// An ordinary MCP server with a tool that charges customers
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    options: ChargeServerOptions,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse().options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not `eprintln!`, which panics when standard error is closed.
            let _ = writeln!(io::stderr(), "charge_server: {error}");
            ExitCode::FAILURE
        }
    }
}
