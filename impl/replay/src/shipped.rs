//! All shipped protocols: each violation replayed, and each schedule gone through by a sound protocol.

use std::sync::Arc;

use serde::Serialize;
use settled_model::{Description, Limits, PropertyName, Trace, check, library};
use tokio::task::JoinSet;

use crate::conductor::Options;
use crate::outcome::{Outcome, Verdict, replay};
use crate::run::TraceError;
use crate::safe::{Survival, sound_counterpart, survive};

/// One violation of one protocol.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The protocol.
    pub protocol: String,
    /// The property.
    pub property: PropertyName,
    /// What came of the replay.
    pub replay: Outcome,
    /// What came of the schedule under a sound protocol.
    pub survival: Option<Survival>,
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct All {
    /// The violations.
    pub rows: Vec<Row>,
    /// The protocols in which nothing is violated: there is no schedule to replay.
    pub sound: Vec<String>,
}

impl All {
    /// Whether reality agrees with every trace that there is something to replay it on, and every sound protocol survived.
    pub fn agrees(&self) -> bool {
        self.rows.iter().all(|row| {
            let replayed = row.replay.agrees() || matches!(row.replay.verdict, Verdict::NoImplementation { .. });
            replayed && row.survival.as_ref().is_none_or(Survival::survived)
        })
    }
}

/// Replays every violation of the shipped protocols with these names (all, if none is given). `told` is called for each.
///
/// # Errors
/// If a shipped protocol can't be checked.
pub async fn all(names: &[String], options: &Options, at_once: usize, told: impl Fn(&Row)) -> Result<All, TraceError> {
    let broken = |error: &dyn std::fmt::Display| TraceError::Description(error.to_string());
    let load = |name: &str| library::load(name).map_err(|error| broken(&error));
    let shipped = library::SHIPPED.iter().map(|(name, _)| (*name).to_owned());
    let chosen: Vec<String> = if names.is_empty() { shipped.collect() } else { names.to_vec() };
    let sound: Vec<Description> = library::SHIPPED
        .iter()
        .filter(|(name, _)| name.starts_with("settled-"))
        .map(|(name, _)| load(name))
        .collect::<Result<_, _>>()?;
    let sound = Arc::new(sound);
    let mut all = All::default();
    let mut running = JoinSet::new();
    let mut order = Vec::new();
    for name in &chosen {
        // What the design says is sound is checked by `settled check`: here there is nothing to replay.
        if name.starts_with("settled-") || ["devices-sound", "devices-clocks-off"].contains(&name.as_str()) {
            all.sound.push(name.clone());
            continue;
        }
        let description = load(name)?;
        let checking = tokio::task::spawn_blocking(move || check(&description, Limits::default(), |_| {}));
        let report = checking.await.map_err(|error| broken(&error))?.map_err(|error| broken(&error))?;
        let traces: Vec<Trace> = report.violations().map(|(_, trace)| trace.clone()).collect();
        if traces.is_empty() {
            all.sound.push(name.clone());
        }
        for trace in traces {
            while running.len() >= at_once.max(1) {
                take(running.join_next().await, &mut all, &told);
            }
            order.push((trace.protocol.clone(), trace.property));
            let (options, sound) = (options.clone(), sound.clone());
            running.spawn(async move { row(&trace, &sound, &options).await });
        }
    }
    while let Some(ended) = running.join_next().await {
        take(Some(ended), &mut all, &told);
    }
    let place =
        |row: &Row| order.iter().position(|(name, property)| *name == row.protocol && *property == row.property);
    all.rows.sort_by_key(place);
    Ok(all)
}

fn take(ended: Option<Result<Row, tokio::task::JoinError>>, all: &mut All, told: &impl Fn(&Row)) {
    if let Some(Ok(row)) = ended {
        told(&row);
        all.rows.push(row);
    }
}

async fn row(trace: &Trace, sound: &[Description], options: &Options) -> Row {
    let (protocol, property) = (trace.protocol.clone(), trace.property);
    let engines = Options { proxy: None, ..options.clone() };
    let replay = match replay(trace, &engines).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome {
            protocol: protocol.clone(),
            property,
            steps: trace.steps.len(),
            model: trace.effects.clone(),
            reality: Vec::new(),
            told: Vec::new(),
            violated: false,
            verdict: Verdict::NoImplementation { reason: error.to_string() },
            kept: None,
            verified: None,
        },
    };
    let theirs = serde_json::from_value::<Description>(trace.description.clone());
    let survival = match theirs {
        // Devices are described otherwise.
        Err(_) => crate::devices::survive(trace, &engines).await.ok(),
        Ok(theirs) => match sound_counterpart(trace, &theirs, sound, options.proxy.is_some()) {
            Some(sound) => survive(trace, sound, options).await.ok(),
            None => None,
        },
    };
    Row { protocol, property, replay, survival }
}
