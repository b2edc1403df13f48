//! An MCP server named `shop` over standard input and output, with a tool that changes the world and one that reads.
//!
//! It can be told to be slow or to die at the worst moment: after the effect and before the answer.

use std::{io, path::PathBuf, time::Duration};

use rmcp::{
    ErrorData, ServerHandler, ServiceExt,
    handler::server::wrapper::Parameters,
    model::{CallToolResult, ContentBlock},
    schemars::{self, JsonSchema},
    service::{QuitReason, ServerInitializeError},
    tool, tool_handler, tool_router,
    transport::stdio,
};
use serde::Deserialize;

use crate::{
    ExampleError,
    effects::{Effects, is_customer},
};

/// What the server writes to, and how it misbehaves.
#[derive(Debug, Clone, clap::Args)]
pub struct ChargeServerOptions {
    /// File that gets one line for each charge; created if missing
    #[arg(long, value_name = "FILE")]
    pub effects: PathBuf,
    /// How long a charge takes to answer after its effect, for the charges that --delay-first counts
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, default_value = "0s")]
    pub answer_delay: Duration,
    /// How many charges are answered late: those that become the first lines of the effects file
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub delay_first: u32,
    /// Abort the process right after writing this line (counted from 1) of the effects file, before answering
    #[arg(long, value_name = "LINE", value_parser = clap::value_parser!(u32).range(1..))]
    pub die_after_effect: Option<u32>,
}

/// Serves one MCP client on standard input and output until it closes the connection.
///
/// # Errors
///
/// [`ExampleError::Effects`] if the effects file cannot be opened, [`ExampleError::Handshake`] if what arrives is not an
/// MCP connection, [`ExampleError::Task`] if the server's task ends abnormally. A client that leaves before it says
/// anything is no error.
pub async fn run(options: ChargeServerOptions) -> Result<(), ExampleError> {
    let effects = Effects::open(&options.effects)
        .map_err(|source| ExampleError::Effects { path: options.effects.clone(), source })?;
    let running = match (Shop { effects, options }).serve(stdio()).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ExampleError::Handshake(Box::new(error))),
    };
    match running.waiting().await? {
        QuitReason::JoinError(error) => Err(error.into()),
        _ => Ok(()),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Charge {
    /// Name of the customer, one word
    customer: String,
    /// Amount to charge, in cents
    cents: u64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Balance {
    /// Name of the customer, one word
    customer: String,
}

#[derive(Debug, Clone)]
struct Shop {
    effects: Effects,
    options: ChargeServerOptions,
}

#[tool_router]
impl Shop {
    #[tool(
        description = "Charge a customer",
        annotations(read_only_hint = false, destructive_hint = true, idempotent_hint = false, open_world_hint = false)
    )]
    async fn charge(
        &self,
        Parameters(Charge { customer, cents }): Parameters<Charge>,
    ) -> Result<CallToolResult, ErrorData> {
        check_customer(&customer)?;
        let answer = format!("charged {customer} {cents}");
        let die_after = self.options.die_after_effect;
        let line = self
            .on_file(move |effects| {
                let line = effects.append(&customer, cents)?;
                if die_after.is_some_and(|last| is_line(last, line)) {
                    // Not `exit`: nothing may be flushed, answered or closed on the way out.
                    std::process::abort();
                }
                Ok(line)
            })
            .await;
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                return Ok(failure(format!("the charge may not have been recorded: {error}")));
            }
        };
        if usize::try_from(self.options.delay_first).is_ok_and(|late| line <= late) {
            tokio::time::sleep(self.options.answer_delay).await;
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(answer)]))
    }

    #[tool(
        description = "Number of charges to a customer so far",
        annotations(read_only_hint = true, open_world_hint = false)
    )]
    async fn balance(
        &self,
        Parameters(Balance { customer }): Parameters<Balance>,
    ) -> Result<CallToolResult, ErrorData> {
        check_customer(&customer)?;
        Ok(match self.on_file(move |effects| effects.count(&customer)).await {
            Ok(count) => CallToolResult::success(vec![ContentBlock::text(count.to_string())]),
            Err(error) => failure(format!("cannot read the charges: {error}")),
        })
    }

    /// Runs blocking file access where it does not hold up other calls.
    async fn on_file<T: Send + 'static>(
        &self,
        access: impl FnOnce(Effects) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let effects = self.effects.clone();
        tokio::task::spawn_blocking(move || access(effects)).await.map_err(io::Error::other)?
    }
}

#[tool_handler(name = "shop")]
impl ServerHandler for Shop {}

fn is_line(wanted: u32, line: usize) -> bool {
    usize::try_from(wanted).is_ok_and(|wanted| wanted == line)
}

fn check_customer(customer: &str) -> Result<(), ErrorData> {
    if is_customer(customer) {
        Ok(())
    } else {
        Err(ErrorData::invalid_params("customer must be one word without white space", None))
    }
}

fn failure(text: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_and_schema_say_what_the_tools_are() {
        let charge = Shop::charge_tool_attr();
        let hints = charge.annotations.unwrap();
        assert_eq!(
            (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint),
            (Some(false), Some(true), Some(false))
        );
        assert_eq!(charge.input_schema["properties"]["cents"]["type"], "integer");
        assert_eq!(charge.input_schema["required"], serde_json::json!(["customer", "cents"]));
        assert_eq!(Shop::balance_tool_attr().annotations.unwrap().read_only_hint, Some(true));
    }
}
