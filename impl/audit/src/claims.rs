//! What became of what a tool claims, and what to declare of it.

use serde_json::{Map, Value};

use crate::report::{Claim, Experiment, ExperimentReport, Found, Verdict};
use crate::template::is_fresh;
use crate::tool::Annotations;
use crate::watch::Observing;

/// What became of `readOnlyHint: true` and `idempotentHint: true`.
pub(crate) fn claims(annotations: &Annotations, effect: &[String], experiments: &[ExperimentReport]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let untold =
        experiments.iter().all(|experiment| matches!(experiment.verdict, Verdict::Unknown | Verdict::NotTried));
    let claim = |claim: &str, found: Found, because: String| Claim { claim: format!("{claim}: true"), found, because };
    if annotations.reads_only() {
        let changed = experiments.iter().find(|experiment| !experiment.changes.is_empty());
        let (found, because) = match (effect.first(), changed) {
            (Some(effect), _) => (Found::Untrue, format!("a call changes what is watched: {effect}")),
            (None, Some(experiment)) => {
                (Found::Untrue, format!("{}: {}", experiment.experiment, experiment.changes.join("; ")))
            }
            (None, None) if untold => (Found::Unknown, "there was nothing to tell it by".to_owned()),
            (None, None) => (Found::Held, "no call changed anything that is watched".to_owned()),
        };
        claims.push(claim("readOnlyHint", found, because));
    }
    if annotations.idempotent_hint == Some(true) {
        let again = [Experiment::Twice, Experiment::Restart];
        let made = experiments.iter().filter(|experiment| again.contains(&experiment.experiment));
        let broken = made.clone().find(|experiment| experiment.verdict == Verdict::Duplicate);
        let is_safe = made.clone().any(|experiment| experiment.verdict == Verdict::Safe);
        let (found, because) = match (broken, is_safe) {
            (Some(experiment), _) => {
                (Found::Untrue, format!("{}: {}", experiment.experiment, experiment.changes.join("; ")))
            }
            (None, true) => (Found::Held, "the second call changed nothing further".to_owned()),
            (None, false) => (Found::Unknown, "there was nothing to tell it by".to_owned()),
        };
        claims.push(claim("idempotentHint", found, because));
    }
    claims
}

/// What a suggestion rests on.
pub(crate) struct Seen<'a> {
    pub(crate) name: &'a str,
    pub(crate) annotations: &'a Annotations,
    pub(crate) effect: &'a [String],
    pub(crate) experiments: &'a [ExperimentReport],
    pub(crate) observer: Option<&'a Observing>,
    /// What the tool was called with, as it was written.
    pub(crate) arguments: &'a Map<String, Value>,
    /// The server's name: its tools change one thing.
    pub(crate) server: &'a str,
}

impl Seen<'_> {
    /// An argument that is another one in each call.
    fn names_the_call(&self) -> Option<&str> {
        let is_name = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        let mut named =
            self.arguments.iter().filter(|(name, value)| is_name(name) && value.is_string() && is_fresh(value));
        named.next().map(|(name, _)| name.as_str())
    }

    /// A name for what its calls must have to themselves: as the server is called, whatever characters it has.
    fn resource(&self) -> String {
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_./@ ".contains(letter);
        self.server.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
    }
}

/// What fits in `settled.toml`, if that can be said.
pub(crate) fn suggestion(seen: &Seen<'_>) -> Option<String> {
    let verdict = |wanted: Experiment| {
        seen.experiments.iter().find(|one| one.experiment == wanted).map_or(Verdict::NotTried, |one| one.verdict)
    };
    let again = [Experiment::Twice, Experiment::LostAnswer, Experiment::Restart, Experiment::Concurrent].map(verdict);
    let loses = verdict(Experiment::DifferentAtOnce) == Verdict::WrongRecord;
    let fails_again = again.into_iter().any(Verdict::is_defect);
    if !fails_again && (again.contains(&Verdict::Unknown) || verdict(Experiment::Twice) != Verdict::Safe) {
        return None;
    }
    let mut lines = vec![format!("[tools.{}]", key(seen.name))];
    let observer = seen.observer.filter(|_| fails_again).zip(seen.names_the_call());
    if fails_again && observer.is_none() {
        lines.push("# A call whose answer is lost is held for a person. If it can be found out whether it happened: \"observable\".".to_owned());
    }
    if fails_again || loses {
        lines.push(format!("kind = \"{}\"", if observer.is_some() { "observable" } else { "opaque" }));
    } else if seen.effect.is_empty() || seen.annotations.reads_only() || seen.annotations.idempotent_hint == Some(true)
    {
        // What the annotations say already need not be declared.
        return None;
    } else {
        lines.push("# It was seen that the same call again changes nothing further.".to_owned());
        lines.push("kind = \"idempotent\"".to_owned());
    }
    if loses {
        lines.push("# Calls at once lose updates: one at a time, with all tools that change the same.".to_owned());
        lines.push(format!("resource = {}", Value::from(seen.resource())));
    }
    if let Some((observer, argument)) = observer {
        lines.push("# How long after it was sent an effect can still appear.".to_owned());
        lines.push("settling = \"30s\"".to_owned());
        lines.push(String::new());
        lines.push(format!("[tools.{}.observe]", key(seen.name)));
        lines.push(format!("tool = {}", Value::from(observer.tool.as_str())));
        lines.push("# To be adapted: how it is asked about *this* call, and which answers say that it took effect, and that it did not.".to_owned());
        lines.push("# If it can't be asked about one call, the tool is \"opaque\".".to_owned());
        lines.push(format!("arguments = {{ {argument} = \"{{{argument}}}\" }}"));
        lines.push("applied = { at = \"/structuredContent/found\", is = true }".to_owned());
        lines.push("not_applied = { at = \"/structuredContent/found\", is = false }".to_owned());
    }
    Some(lines.join("\n"))
}

/// A name as a key of TOML.
fn key(name: &str) -> String {
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => Value::from(name).to_string(),
    }
}
