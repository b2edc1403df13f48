//! A program that takes the steps of a profile with the library: what the adapter `settled-library` runs.
//!
//! Each step is a guarded function under a key of its own, and so is the answer of a person. The ledger is all that it remembers:
//! to resume is to begin again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use reqwest::{Client, StatusCode, Url};
use serde::{Deserialize, Serialize};
use settled::protocol::{Policy, Retry, ToolKind};
use settled::{Engine, EngineOptions, Guard, Handler, Limits, Seen, applied};
use settled_ledger_file::{FileLedger, FileLedgerOptions};

use crate::failure::{Exit, Failure};
use crate::runtime::block_on;

/// What the run waits for an approval ends with.
const WAITS: Exit = Exit::Code(75);

/// How long after it was sent an effect of the profile's tool can still appear: it keeps its callers waiting for less.
const SETTLING: Duration = Duration::from_secs(5);

/// How long a step waits for an unknown outcome to be established: longer than it takes to be sure that it did not happen.
const PATIENCE: Duration = Duration::from_secs(SETTLING.as_secs() + 2);

/// How often the tool's server is asked before a person is: more often than there is time for.
const QUESTIONS: u32 = 30;

/// Takes the steps of a profile with the library.
#[derive(Debug, Args)]
pub struct LibraryArgs {
    /// `start` a run, or go on with one
    action: Action,
    /// What is asked for
    #[arg(long, env = "PROFILE_WORKLOAD")]
    workload: Workload,
    /// The run's name
    #[arg(long, env = "PROFILE_RUN")]
    run: String,
    /// Where the ledger is kept
    #[arg(long, env = "PROFILE_STATE")]
    state: PathBuf,
    /// How many seconds a call of the tool is waited for
    #[arg(long, env = "PROFILE_TIMEOUT")]
    timeout: u64,
    /// The tool
    #[arg(long, env = "PROFILE_TOOL_URL")]
    tool_url: Url,
    /// What a person has answered
    #[arg(long, env = "PROFILE_ANSWER")]
    answer: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Action {
    Start,
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    Steps,
    Approval,
    Parallel,
}

/// What the tool is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    run: String,
    step: String,
}

/// Runs the command.
pub fn run(args: LibraryArgs) -> Result<Exit, Failure> {
    block_on(async move {
        let steps = Steps::open(&args).await?;
        steps.take("a").await?;
        if args.workload == Workload::Steps {
            steps.take("b").await?;
            steps.take("c").await?;
            return Ok(Exit::Good);
        }
        let gated = if args.workload == Workload::Parallel { "c" } else { "b" };
        let others = async {
            match args.workload {
                Workload::Parallel => steps.take("b").await,
                _ => Ok(()),
            }
        };
        let approved = async {
            let Some(answer) = &args.answer else { return Ok(WAITS) };
            if steps.first_answer(answer).await? == "approve" {
                steps.take(gated).await?;
            }
            Ok(Exit::Good)
        };
        let (others, approved) = tokio::join!(others, approved);
        others.and(approved)
    })
}

/// The steps of one run.
struct Steps {
    guard: Guard,
    run: String,
    policy: Policy,
    limits: Limits,
    handler: Handler<()>,
}

impl Steps {
    async fn open(args: &LibraryArgs) -> Result<Self, Failure> {
        let unusable = |error: &dyn std::fmt::Display| Failure::unavailable(&args.state.to_string_lossy(), error);
        let ledger = FileLedger::open(args.state.join("ledger"), FileLedgerOptions::default());
        let ledger = ledger.map_err(|error| unusable(&error))?;
        let engine = Engine::start(Arc::new(ledger), EngineOptions::default()).await;
        let settling = u64::try_from(SETTLING.as_millis()).unwrap_or(u64::MAX);
        Ok(Self {
            guard: Guard::new(engine.map_err(|error| unusable(&error))?),
            run: args.run.clone(),
            policy: Policy {
                retry: Retry { checks: QUESTIONS, ..Retry::default() },
                ..Policy::new(ToolKind::Observable { settling })
            },
            limits: Limits { attempt: Duration::from_secs(args.timeout), settle: PATIENCE, ..Limits::default() },
            handler: handler(&args.tool_url)?,
        })
    }

    /// Takes a step, unless it was taken before.
    async fn take(&self, step: &str) -> Result<(), Failure> {
        let asked = Step { run: self.run.clone(), step: step.to_owned() };
        let operation = Guard::operation("profile", "step")
            .key(format!("{}/{step}", self.run))
            .and_then(|keyed| keyed.arguments(&asked))
            .map_err(|error| Failure::input(error.to_string()))?
            .policy(self.policy)
            .limits(self.limits)
            .build();
        let told = self.guard.call_handler(operation, &self.handler).await;
        let told = told.map_err(|error| Failure::nothing(format!("{step}: {error}")))?;
        told.done().map_err(|why| Failure::nothing(format!("{step}: {why}")))
    }

    /// What a person has answered first: that counts, whatever is answered later.
    async fn first_answer(&self, answer: &str) -> Result<String, Failure> {
        let operation = Guard::operation("profile", "answer").key(&self.run);
        let operation = operation.map_err(|error| Failure::input(error.to_string()))?;
        let policy = Policy::new(ToolKind::Idempotent);
        let answer = answer.to_owned();
        let told = self.guard.call(operation.policy(policy).build(), move || {
            let answer = answer.clone();
            async move { Ok::<_, settled::Failure>(answer) }
        });
        let told = told.await.map_err(|error| Failure::nothing(format!("the answer: {error}")))?;
        told.done().map_err(|why| Failure::nothing(format!("the answer: {why}")))
    }
}

/// The tool, and how to find out what it did.
fn handler(tool: &Url) -> Result<Handler<()>, Failure> {
    let unusable = |error: &dyn std::fmt::Display| Failure::internal(format!("HTTP can't be used: {error}"));
    let tls = settled_http::tls::client(None).map_err(|error| unusable(&error))?;
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        // Rule 1: one dispatch is at most one delivery.
        .retry(reqwest::retry::never())
        .build()
        .map_err(|error| unusable(&error))?;
    let (post, url) = (client.clone(), tool.clone());
    let handler = Handler::new(move |attempting| {
        let request = post.post(url.clone()).header("content-type", "application/json");
        let key = format!("\"{}\"", attempting.key.id());
        let request = request.header("idempotency-key", key).body(attempting.raw_arguments().clone());
        async move { request.send().await?.error_for_status()?.bytes().await.map(drop) }
    });
    let origin = tool.clone();
    Ok(handler.observe(move |question| {
        let (client, origin) = (client.clone(), origin.clone());
        async move {
            let Ok(Step { run, step }) = serde_json::from_slice(&question.arguments) else { return Seen::Unclear };
            let Ok(url) = origin.join(&format!("/applied/{run}/{step}")) else { return Seen::Unclear };
            match client.get(url).send().await.map(|answer| answer.status()) {
                Ok(StatusCode::OK) => applied(&()),
                Ok(StatusCode::NOT_FOUND) => Seen::NotApplied,
                _ => Seen::Unclear,
            }
        }
    }))
}
