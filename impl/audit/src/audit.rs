//! An audit from its beginning to its end.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::claims::{Seen, claims, suggestion};
use crate::error::AuditError;
use crate::experiment::Subject;
use crate::generate::generate;
use crate::judge::{Baseline, Trial};
use crate::options::{Choice, Options, Target};
use crate::redact::Secrets;
use crate::report::{Experiment, ExperimentReport, Listed, Report, ServerReport, ToolReport, Transport, Verdict};
use crate::stage::Stage;
use crate::tool::Tool;

/// Told of what is being done.
pub type Progress<'a> = &'a (dyn Fn(&str) + Sync);

/// Makes an audit.
///
/// # Errors
/// If it can't be made: bad input, a server that can't be used, or something that can't be watched.
pub async fn audit(options: &Options, secrets: &Secrets, progress: Progress<'_>) -> Result<Report, AuditError> {
    let mut stage = Stage::open(options).await?;
    let tools = stage.client().await?.tools().await?;
    let server = stage.server().await?;
    let chosen = chosen(&options.choice, &tools)?;
    check_names(options, &tools)?;
    let mut report = Report {
        format: "settled-audit/1".to_owned(),
        settled: env!("CARGO_PKG_VERSION").to_owned(),
        server: ServerReport {
            name: server.name,
            version: server.version,
            revision: server.revision,
            transport: match options.target {
                Target::Command(_) => Transport::Stdio,
                Target::Url(_) => Transport::Http,
            },
        },
        watched: stage.watches.words(),
        noise: Vec::new(),
        repeat: options.repeat,
        tools: Vec::new(),
        listed: Vec::new(),
    };
    if !chosen.is_empty() {
        progress("looking at what changes by itself");
        stage.listen().await?;
    }
    for tool in &tools {
        if chosen.contains(&tool.name.as_str()) {
            report.tools.push(of_tool(tool, &mut stage, progress).await?);
        } else {
            report.listed.push(listed(tool, &stage));
        }
    }
    report.noise = stage.noise.names();
    stage.close().await;
    secrets.hide_in(report).map_err(|error| AuditError::Input(error.to_string()))
}

fn chosen<'a>(choice: &'a Choice, tools: &'a [Tool]) -> Result<Vec<&'a str>, AuditError> {
    let all = tools.iter().map(|tool| tool.name.as_str());
    match choice {
        Choice::List => Ok(Vec::new()),
        Choice::All => Ok(all.collect()),
        Choice::ReadOnly => {
            let only_reading = tools.iter().filter(|tool| tool.annotations.reads_only());
            Ok(only_reading.map(|tool| tool.name.as_str()).collect())
        }
        Choice::Named(names) => {
            for name in names {
                known(name, tools)?;
            }
            Ok(names.iter().map(String::as_str).collect())
        }
    }
}

fn known(name: &str, tools: &[Tool]) -> Result<(), AuditError> {
    if tools.iter().any(|tool| tool.name == name) {
        return Ok(());
    }
    const MOST: usize = 20;
    let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).take(MOST).collect();
    if tools.len() > MOST {
        names.push("…");
    }
    Err(AuditError::Input(format!("the server has no tool `{name}`; it has: {}", names.join(", "))))
}

/// A tool that is named and isn't there is a slip that would otherwise pass unseen.
fn check_names(options: &Options, tools: &[Tool]) -> Result<(), AuditError> {
    for (name, prepared) in &options.arguments.tools {
        known(name, tools)?;
        for before in &prepared.before {
            known(&before.tool, tools)?;
        }
    }
    if let Some(observer) = &options.observer {
        known(&observer.tool, tools)?;
    }
    Ok(())
}

fn listed(tool: &Tool, stage: &Stage<'_>) -> Listed {
    let is_given = stage.options.arguments.tools.contains_key(&tool.name);
    let made = generate(&tool.input_schema, &stage.source);
    Listed {
        name: tool.name.clone(),
        annotations: tool.annotations,
        needs_arguments: made.err().filter(|_| !is_given).map(|cannot| cannot.to_string()),
    }
}

async fn of_tool(tool: &Tool, stage: &mut Stage<'_>, progress: Progress<'_>) -> Result<ToolReport, AuditError> {
    let (arguments, before) = match stage.options.arguments.tools.get(&tool.name) {
        Some(prepared) => (prepared.arguments.clone(), prepared.before.clone()),
        None => match generate(&tool.input_schema, &stage.source) {
            Ok(arguments) => (arguments, Vec::new()),
            Err(cannot) => return Ok(untold(tool, Map::new(), Vec::new(), String::new(), &cannot.to_string())),
        },
    };
    let subject = Subject { tool: tool.name.clone(), arguments, before };
    progress(&format!("{}: once", tool.name));
    let first = match subject.first(stage).await {
        Ok(first) => first,
        Err(error) if error.is_input() => return Err(error),
        Err(error) => {
            // What is left of a connection that failed is of no use to the next tool.
            stage.disconnect().await;
            return Ok(untold(tool, subject.arguments, Vec::new(), String::new(), &error.to_string()));
        }
    };
    let answer = first.trial.answers.first().cloned().unwrap_or_default();
    let effect = first.baseline.effect.clone();
    let why = reason_to_stop(tool, stage, &first.baseline, &first.trial);
    let once = summary(Experiment::Once, vec![first.trial]);
    let mut experiments = vec![once];
    let wanted = |experiment: &Experiment| stage.options.experiments.contains(experiment);
    for experiment in Experiment::ALL.into_iter().skip(1).filter(wanted).collect::<Vec<_>>() {
        if let Some(why) = &why {
            experiments.push(summary(experiment, vec![Trial::new(Verdict::Unknown, why.clone())]));
            continue;
        }
        experiments.push(repeated(experiment, &subject, stage, &first.baseline, progress).await?);
    }
    if why.is_some()
        && let Some(once) = experiments.first_mut()
        && once.verdict == Verdict::Safe
    {
        // That one call succeeds says nothing about what a second one does.
        once.verdict = Verdict::Unknown;
        once.counts = BTreeMap::from([(Verdict::Unknown, 1)]);
    }
    let server = stage.server().await.map(|server| server.name).unwrap_or_default();
    let seen = Seen {
        name: &tool.name,
        annotations: &tool.annotations,
        effect: &effect,
        experiments: &experiments,
        observer: stage.watches.observer(),
        arguments: &subject.arguments,
        server: &server,
    };
    let suggestion = suggestion(&seen);
    let claims = claims(&tool.annotations, &effect, &experiments);
    let (name, annotations, arguments) = (tool.name.clone(), tool.annotations, subject.arguments);
    Ok(ToolReport { name, annotations, arguments, effect, answer, experiments, claims, suggestion })
}

/// Why more calls would tell nothing.
fn reason_to_stop(tool: &Tool, stage: &Stage<'_>, baseline: &Baseline, first: &Trial) -> Option<String> {
    if stage.watches.is_empty() {
        return Some("nothing is watched: give --watch or --observer".to_owned());
    }
    if first.verdict == Verdict::Unknown && !baseline.has_effect() {
        return Some(format!("one call fails: {}", first.answers.join("; ")));
    }
    if !baseline.has_effect() && !tool.annotations.reads_only() {
        return Some(
            "one call changes nothing that is watched: watch something else, or give other arguments".to_owned(),
        );
    }
    None
}

async fn repeated(
    experiment: Experiment,
    subject: &Subject,
    stage: &mut Stage<'_>,
    baseline: &Baseline,
    progress: Progress<'_>,
) -> Result<ExperimentReport, AuditError> {
    match subject.obstacle(experiment, stage).await {
        Ok(None) => {}
        Ok(Some(why)) => return Ok(summary(experiment, vec![Trial::new(Verdict::NotTried, why)])),
        Err(error) => return Ok(summary(experiment, vec![Trial::new(Verdict::Unknown, error.to_string())])),
    }
    let mut trials = Vec::new();
    for run in 1..=stage.options.repeat {
        progress(&format!("{}: {experiment}, {run} of {}", subject.tool, stage.options.repeat));
        trials.push(match subject.run(experiment, stage, baseline).await {
            Ok(trial) => trial,
            Err(error) if error.is_input() => return Err(error),
            Err(error) => {
                stage.disconnect().await;
                Trial::new(Verdict::Unknown, error.to_string())
            }
        });
    }
    Ok(summary(experiment, trials))
}

/// The worst of some runs, and how often there was what.
fn summary(experiment: Experiment, trials: Vec<Trial>) -> ExperimentReport {
    let mut counts = BTreeMap::new();
    for trial in &trials {
        *counts.entry(trial.verdict).or_default() += 1;
    }
    let worst = trials.iter().map(|trial| trial.verdict).max().unwrap_or(Verdict::NotTried);
    let shown = trials.into_iter().find(|trial| trial.verdict == worst);
    let Trial { because, changes, answers, .. } = shown.unwrap_or(Trial::new(worst, ""));
    ExperimentReport { experiment, verdict: worst, counts, because, changes, answers }
}

fn untold(tool: &Tool, arguments: Map<String, Value>, effect: Vec<String>, answer: String, why: &str) -> ToolReport {
    let experiments: Vec<ExperimentReport> =
        Experiment::ALL.map(|experiment| summary(experiment, vec![Trial::new(Verdict::Unknown, why)])).to_vec();
    ToolReport {
        name: tool.name.clone(),
        annotations: tool.annotations,
        arguments,
        claims: claims(&tool.annotations, &effect, &experiments),
        effect,
        answer,
        experiments,
        suggestion: None,
    }
}
