//! An MCP client that starts a server, calls `charge`, and calls again when no answer comes.
//!
//! The retry carries nothing that ties it to the first attempt, as with most clients: to the server it is a new call.

use std::{
    io::{self, Write},
    process::Stdio,
    time::Duration,
};

use rmcp::{
    ServiceError, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientConfig, ClientRequest, Implementation,
        JsonObject, ServerResult,
    },
    service::{PeerRequestOptions, QuitReason, RoleClient, RunningService},
    transport::TokioChildProcess,
};
use tokio::process::Command;

use crate::{Attempt, ClientReport, ExampleError, Outcome};

/// A server that says nothing at all must not hold the client for ever; a slow start is not what `timeout` is about.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// What to call, and how patiently.
#[derive(Debug, Clone, clap::Args)]
pub struct RetryingClientOptions {
    /// Customer to charge
    #[arg(long, value_name = "NAME", default_value = "alice")]
    pub customer: String,
    /// Amount to charge, in cents
    #[arg(long, value_name = "CENTS", default_value_t = 4200)]
    pub cents: u64,
    /// How long to wait for the answer to an attempt
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "60s")]
    pub timeout: Duration,
    /// How often to call again when no answer came
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub retries: u32,
    /// The MCP server's command, after --
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Makes the call with its retries, prints a line for each attempt on standard output, closes the connection and waits
/// for the server's process.
///
/// # Errors
///
/// [`ExampleError::NoCommand`], [`ExampleError::Spawn`] if the server's program cannot be started,
/// [`ExampleError::Output`] if a line cannot be printed, [`ExampleError::Task`]. How the call ended is in the report.
pub async fn run(options: RetryingClientOptions) -> Result<ClientReport, ExampleError> {
    run_observed(options, |attempt| {
        let mut stdout = io::stdout().lock();
        // Not `println!`, which panics when the reader has gone.
        writeln!(stdout, "{attempt}").and_then(|()| stdout.flush()).map_err(ExampleError::Output)
    })
    .await
}

/// Like [`run`], but hands each attempt to `observe` as it ends instead of printing it.
///
/// # Errors
///
/// As [`run`], and what `observe` returns; the connection is closed in every case.
pub async fn run_observed(
    options: RetryingClientOptions,
    observe: impl FnMut(&Attempt) -> Result<(), ExampleError>,
) -> Result<ClientReport, ExampleError> {
    let mut link = Link { command: options.command.clone(), connection: None };
    let attempts = make_attempts(&options, &mut link, observe).await;
    let closed = link.close().await;
    let attempts = attempts?;
    closed?;
    Ok(ClientReport { attempts })
}

async fn make_attempts(
    options: &RetryingClientOptions,
    link: &mut Link,
    mut observe: impl FnMut(&Attempt) -> Result<(), ExampleError>,
) -> Result<Vec<Attempt>, ExampleError> {
    let mut attempts = Vec::new();
    for number in 1..=u64::from(options.retries) + 1 {
        let attempt = Attempt { number, outcome: link.charge(options).await? };
        observe(&attempt)?;
        let again = attempt.outcome.is_retried();
        attempts.push(attempt);
        if !again {
            break;
        }
    }
    Ok(attempts)
}

/// The command of a server and the connection to its process, if there is one.
struct Link {
    command: Vec<String>,
    connection: Option<RunningService<RoleClient, ClientConfig>>,
}

impl Link {
    /// One attempt, over the existing connection or, if that is gone, over a new one.
    async fn charge(&mut self, options: &RetryingClientOptions) -> Result<Outcome, ExampleError> {
        if self.connection.as_ref().is_some_and(|connection| connection.is_transport_closed()) {
            self.close().await?;
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => match self.connect().await? {
                Ok(connection) => connection,
                Err(reason) => return Ok(Outcome::ConnectionLost { reason }),
            },
        };
        let connection = self.connection.insert(connection);

        let mut arguments = JsonObject::new();
        arguments.insert("customer".to_owned(), options.customer.clone().into());
        arguments.insert("cents".to_owned(), options.cents.into());
        let params = CallToolRequestParams::new("charge").with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let timeout = PeerRequestOptions::with_timeout(options.timeout);
        let answer = match connection.send_request_with_option(request, timeout).await {
            Ok(handle) => handle.await_response().await,
            Err(error) => Err(error),
        };
        let outcome = outcome(answer);
        if matches!(outcome, Outcome::ConnectionLost { .. }) {
            self.close().await?;
        }
        Ok(outcome)
    }

    /// Starts the server. The inner error says why there is a process but no connection.
    async fn connect(&self) -> Result<Result<RunningService<RoleClient, ClientConfig>, String>, ExampleError> {
        let (program, arguments) = self.command.split_first().ok_or(ExampleError::NoCommand)?;
        let mut command = Command::new(program);
        // An abandoned handshake drops the child without the orderly shutdown.
        command.args(arguments).kill_on_drop(true);
        let (transport, _) = TokioChildProcess::builder(command)
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|source| ExampleError::Spawn { command: self.command.join(" "), source })?;
        let info =
            ClientConfig::new(Default::default(), Implementation::new("retrying-client", env!("CARGO_PKG_VERSION")));
        Ok(match tokio::time::timeout(HANDSHAKE_TIMEOUT, info.serve(transport)).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the server did not answer `initialize` within {} s", HANDSHAKE_TIMEOUT.as_secs())),
        })
    }

    /// Closes the server's standard input and waits for its process; one that does not leave is terminated.
    async fn close(&mut self) -> Result<(), ExampleError> {
        match self.connection.take() {
            Some(mut connection) => match connection.close().await? {
                QuitReason::JoinError(error) => Err(error.into()),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }
}

fn outcome(answer: Result<ServerResult, ServiceError>) -> Outcome {
    match answer {
        Ok(ServerResult::CallToolResult(result)) => result_outcome(result),
        Ok(_) => Outcome::Unusable { reason: "not a tool result".to_owned() },
        Err(ServiceError::Timeout { timeout }) => {
            Outcome::TimedOut { after_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX) }
        }
        Err(ServiceError::McpError(error)) => {
            Outcome::Error { code: error.code.0, message: error.message.into_owned(), data: error.data }
        }
        Err(error @ (ServiceError::TransportSend(_) | ServiceError::TransportClosed)) => {
            Outcome::ConnectionLost { reason: error.to_string() }
        }
        Err(error) => Outcome::Unusable { reason: error.to_string() },
    }
}

fn result_outcome(result: CallToolResult) -> Outcome {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text()).map(|text| text.text.as_str()).collect();
    Outcome::Result {
        is_error: result.is_error == Some(true),
        text: texts.join("\n"),
        meta: result.meta.map(|meta| meta.0),
    }
}
