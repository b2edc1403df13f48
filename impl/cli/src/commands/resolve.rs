//! `settled resolve`: a person decides an unknown operation.

use std::time::Duration;

use bytes::Bytes;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use settled::protocol::{Cause, Refusal, State, Time};
use settled::{Clock, DecidedAs, Decision, Engine, EngineError, EngineOptions, Entry, Liveness, SystemClock};

use crate::failure::{Exit, Failure};
use crate::ledger::LedgerArgs;
use crate::runtime::block_on;

/// After this long without a sign of it, an attempt whose process has ended is taken to be over.
const QUIET: Duration = Duration::from_secs(60);

/// Decides an operation whose outcome is unknown. Look at the tool's own records first.
#[derive(Debug, Args)]
pub struct ResolveArgs {
    /// Its key, or the beginning of a key that only it has.
    key: String,
    /// What you found out.
    #[arg(long = "as", value_enum)]
    verdict: VerdictArg,
    /// Why, for whoever reads the ledger later. (Callers who ask again are told, too, unless it is abandoned.)
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    note: String,
    /// The tool's own result, as JSON, for callers who ask again (with `--as succeeded`).
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
    /// With `--as failed` and `--as abandoned`: you have made sure that nothing of it can still be on its way or at work.
    #[arg(long)]
    nothing_pending: bool,
    #[command(flatten)]
    ledger: LedgerArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VerdictArg {
    /// It happened. Callers are told so.
    Succeeded,
    /// It did not happen and will not. Callers may try again; with a key of their own, under a new key.
    Failed,
    /// Nobody will know. A key that was derived from arguments is free for a new call then; a caller's own key is not.
    Abandoned,
}

/// Runs the command.
pub fn run(args: ResolveArgs) -> Result<Exit, Failure> {
    let body = body(&args)?;
    if args.nothing_pending && args.verdict == VerdictArg::Succeeded {
        return Err(Failure::input("--nothing-pending goes with --as failed or --as abandoned only"));
    }
    block_on(async move {
        let opened = args.ledger.open_existing().await?;
        let ledger = opened.ledger;
        let entry = super::log::find(&ledger, &args.key).await?;
        let owner_alive = match entry.record.sent() {
            // One whose lease has run out may be frozen, and may still send.
            Some(sent) => ledger.liveness(sent.owner()).await? != Liveness::Gone,
            None => false,
        };
        let now = ledger.time().await?.unwrap_or_else(|| SystemClock.now());
        let quiet = args.nothing_pending || is_quiet(&entry, owner_alive, now);
        let engine = Engine::start(ledger, EngineOptions::default())
            .await
            .map_err(|error| Failure::unavailable(&opened.display, &error))?;
        let decided_as = match args.verdict {
            VerdictArg::Succeeded => DecidedAs::Succeeded,
            VerdictArg::Failed => DecidedAs::Failed,
            VerdictArg::Abandoned => DecidedAs::Abandoned,
        };
        let decision = Decision { decided_as, body, note: Some(args.note) };
        let decided = engine.decide_on(&entry, decision, quiet).await;
        // Nothing will be sent by this process. If that can't be told, its lease runs out soon.
        let _ = engine.retire().await;
        match decided {
            Ok(_) => {
                crate::output::line(format!("{} is settled as {}", entry.key, word(args.verdict)))?;
                Ok(Exit::Good)
            }
            Err(EngineError::Refused(Refusal::NotQuiet)) => Err(Failure::nothing(format!(
                "{}: {}. Stop what sent it and what carries it out, or wait: a minute after the process that sent it has \
                 ended, this is accepted. If you have made sure by other means, add --nothing-pending",
                entry.key,
                Refusal::NotQuiet
            ))),
            Err(error) => Err(Failure::nothing(format!("{}: {error}", entry.key))),
        }
    })
}

/// Rule 6, as far as it can be seen from here: nobody can send it any more, and it was sent long ago.
fn is_quiet(entry: &Entry, owner_alive: bool, now: Time) -> bool {
    let Some(sent) = entry.record.sent() else { return true };
    let since = Duration::from_millis(now.since(sent.at()));
    let ended = match entry.record.state() {
        State::Unknown { cause, .. } | State::Escalated { cause, .. } => *cause == Cause::ConnectionLost,
        _ => false,
    };
    (ended || !owner_alive) && since >= QUIET
}

fn word(verdict: VerdictArg) -> &'static str {
    match verdict {
        VerdictArg::Succeeded => "succeeded",
        VerdictArg::Failed => "failed",
        VerdictArg::Abandoned => "abandoned",
    }
}

/// What callers who ask again are told, in the form in which the MCP proxy keeps a tool's answers.
fn body(args: &ResolveArgs) -> Result<Option<Bytes>, Failure> {
    let told = |text: String, is_error: bool| serde_json::json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    let result = match (args.verdict, &args.result) {
        (VerdictArg::Succeeded, Some(result)) => serde_json::from_str(result)
            .ok()
            .filter(serde_json::Value::is_object)
            .ok_or_else(|| Failure::input("--result: a JSON object is expected, as the tool would have answered"))?,
        (_, Some(_)) => return Err(Failure::input("--result goes with --as succeeded only")),
        (VerdictArg::Succeeded, None) => {
            told(format!("This call took effect. Its result was lost; a person has made sure: {}", args.note), false)
        }
        (VerdictArg::Failed, None) => {
            told(format!("This call did not take effect. A person has made sure: {}", args.note), true)
        }
        (VerdictArg::Abandoned, None) => return Ok(None),
    };
    Ok(Some(Bytes::from(serde_json::json!({ "result": result }).to_string())))
}
