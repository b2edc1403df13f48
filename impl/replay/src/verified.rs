//! What the recorded run says by itself: every guard's history, and the tool's own file, checked without this replay's help.

use std::path::Path;

use settled_verify::{Effect, Evidence, Property};

use crate::part::{Line, read_effects};
use crate::wire::Keys;

/// The properties that the recorded run shows violated, by name. `None`: no guard wrote a history, or it can't be read. All
/// processes must have ended.
pub async fn verified(directory: &Path, keys: &Keys, shared: bool, ended: bool) -> Option<Vec<String>> {
    let files = std::fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path());
    let histories: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".history.jsonl")).collect();
    if histories.is_empty() {
        return None;
    }
    let effects = effects(&read_effects(&directory.join("effects.jsonl")), keys, shared);
    // A ledger of this replay alone; one that others share as well says nothing by itself.
    let own = directory.join("ledger");
    let ledger = match own.is_dir() {
        true => settled_ledgers::open_existing(&format!("file:{}", own.display()), Default::default()).await.ok(),
        false => None,
    };
    let ledger = ledger.map(|opened| opened.ledger);
    let evidence = Evidence { histories, ledger, effects, effects_known: true, ended };
    let report = settled_verify::verify(&evidence).await.ok()?;
    // For whoever looks into the kept files.
    let _ = std::fs::write(directory.join("verified.txt"), report.to_string());
    let mut violated: Vec<Property> = report.violations().iter().map(|violation| violation.property).collect();
    violated.sort_unstable();
    violated.dedup();
    Some(violated.into_iter().map(|property| property.name().to_owned()).collect())
}

/// The tool's file in the form that is checked. Its lines are its clock.
fn effects(lines: &[Line], keys: &Keys, shared: bool) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (at, line) in (0u64..).zip(lines) {
        match line {
            Line::Effect { which, call, .. } => {
                let Some(key) = keys.key(which.key) else { continue };
                effects.push(Effect {
                    key,
                    // A proxy's tool is told neither.
                    generation: keys.prefix.is_empty().then_some(which.generation),
                    attempt: keys.prefix.is_empty().then_some(which.attempt),
                    resource: Some(if shared { "shared".to_owned() } else { format!("of call {call}") }),
                    begun: Some(at),
                    ended: None,
                });
            }
            Line::Ended { effect } => {
                if let Some(effect) = (*effect as usize).checked_sub(1).and_then(|at| effects.get_mut(at)) {
                    effect.ended = Some(at);
                }
            }
            Line::Sealed { .. } | Line::Forgot { .. } => {}
        }
    }
    effects
}
