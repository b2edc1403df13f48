//! The design's table of what may be concluded, written down once more: a core that breaks it is found as well.

use settled::Taken;
use settled_protocol::{Digest, ErrorClass, Observation, Record, Reply, SealScope, State, ToolKind, Verdict, What};

use crate::property::Property;
use crate::report::{Report, Where};

/// Checks a step against the table.
pub(crate) fn check(
    report: &mut Report,
    before: Option<&Record<Digest>>,
    after: &Record<Digest>,
    step: &Taken,
    place: &Where,
) {
    let Some(before) = before else { return };
    let same = before.generation() == after.generation();
    if let State::Dispatched(sent) = after.state()
        && same
    {
        if matches!(before.state(), State::Unknown { .. } | State::Escalated { .. }) {
            report.check(Property::UnknownBlocks);
            if let Err((rule, text)) = may_send_again(before, step) {
                report.violate(Property::UnknownBlocks, rule, place.clone(), text);
            }
        }
        if !matches!(before.state(), State::Created) {
            report.check(Property::BoundedRetries);
            let last = before.sent().map_or(0, |last| last.attempt().get());
            let budget = step.policy.retry.attempts;
            if sent.attempt().get() > budget {
                let text = format!("attempt {} of {budget}", sent.attempt());
                report.violate(Property::BoundedRetries, None, place.clone(), text);
            } else if sent.attempt().get() != last.saturating_add(1) {
                let text = format!("attempt {} follows attempt {last}", sent.attempt());
                report.violate(Property::BoundedRetries, Some(5), place.clone(), text);
            }
        }
    }
    if let State::Settled { verdict: Verdict::Failed(_), .. } = after.state()
        && same
        && !before.is_settled()
    {
        report.check(Property::NoFalseFailure);
        if let Err((rule, text)) = may_fail(before, step) {
            report.violate(Property::NoFalseFailure, rule, place.clone(), text);
        }
    }
}

type Broken = (Option<u8>, &'static str);

/// Which event lets an operation whose outcome is unknown be sent again.
fn may_send_again(before: &Record<Digest>, step: &Taken) -> Result<(), Broken> {
    let State::Unknown { sent, quiet, .. } = before.state() else {
        return Err((None, "what was handed to a person was sent again"));
    };
    match (step.policy.tool, step.what) {
        (ToolKind::Opaque, _) => Err((None, "an opaque tool's unknown was sent again")),
        (ToolKind::ReadOnly | ToolKind::Transactional, What::Resume { .. }) => Ok(()),
        (ToolKind::Idempotent, What::Resume { undisturbed: true, .. }) => Ok(()),
        (ToolKind::Idempotent, _) => Err((None, "it was sent again although others may have begun on its resource")),
        (ToolKind::Deduplicates { limit, margin, .. }, What::Resume { .. }) => {
            if step.now.after(margin) < sent.first().after(limit) {
                Ok(())
            } else {
                Err((Some(9), "it was sent again when the tool may have forgotten its key"))
            }
        }
        (
            ToolKind::Observable { settling },
            What::Observed { observation: Observation::NotApplied, conclusive: true, .. },
        ) => match quiet {
            Some(since) if step.now >= since.after(settling) => Ok(()),
            _ => Err((Some(6), "“not applied” was believed before the settling time was over")),
        },
        (ToolKind::Observable { .. }, _) => Err((Some(6), "it was sent again without “not applied”")),
        (ToolKind::Sealable, What::Observed { observation: Observation::Sealed(_), .. }) => Ok(()),
        (ToolKind::Sealable, _) => Err((Some(7), "it was sent again without a seal")),
        _ => Err((None, "it was sent again by an event that allows none")),
    }
}

/// Which event lets an operation be settled as failed.
fn may_fail(before: &Record<Digest>, step: &Taken) -> Result<(), Broken> {
    let policy = &step.policy;
    match (before.state(), step.what) {
        (State::Confirmed { .. }, _) => Ok(()),
        (_, What::Reply { reply: Reply::Error(class, _), .. }) => {
            if class == ErrorClass::Unproven && !policy.errors_final {
                return Err((Some(2), "an error that can follow an effect counted as a failure"));
            }
            let remembered = matches!(policy.tool, ToolKind::Deduplicates { remembers_rejections: true, .. })
                && class == ErrorClass::Unproven;
            let alone = match policy.tool {
                ToolKind::ReadOnly | ToolKind::Transactional => true,
                ToolKind::Sealable => false,
                _ => remembered || policy.single_delivery && before.sent().is_none_or(|sent| !sent.doubt()),
            };
            if alone { Ok(()) } else { Err((Some(2), "it counted as failed while another attempt may still apply")) }
        }
        (
            State::Unknown { quiet, .. },
            What::Observed { observation: Observation::NotApplied, conclusive: true, .. },
        ) => match (policy.tool, quiet) {
            (ToolKind::Observable { settling }, Some(since)) if step.now >= since.after(settling) => Ok(()),
            _ => Err((Some(6), "“not applied” was believed before the settling time was over")),
        },
        (_, What::Observed { observation: Observation::Sealed(SealScope::Operation), .. })
            if policy.tool == ToolKind::Sealable =>
        {
            Ok(())
        }
        (_, What::Observed { .. }) => Err((Some(7), "it counted as failed by an observation that does not say so")),
        (_, What::Resume { .. }) if matches!(policy.tool, ToolKind::ReadOnly | ToolKind::Transactional) => Ok(()),
        (_, What::Decide { quiet: true, .. }) => Ok(()),
        (_, What::Decide { .. }) => {
            Err((Some(10), "a person said that it did not happen while it may still be on its way"))
        }
        (_, What::Cancel) => Err((Some(11), "it was cancelled after it was sent")),
        _ => Err((None, "it counted as failed by an event that proves nothing")),
    }
}
