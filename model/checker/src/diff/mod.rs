//! What changes between two protocols: fields, verdicts, and how runs can end.

mod endings;
mod fields;

use std::mem::discriminant;

pub use endings::{CallEnding, Ending, Endings, endings};
pub use fields::{FieldChange, field_changes};
use settled_explorer::PropertyName;

use crate::check::{Limits, Report, Verdict};
use crate::description::Description;
use crate::validate::Unbuildable;

/// What changes from one protocol to another.
#[derive(Clone, Debug)]
pub struct Diff {
    /// The fields in which they differ.
    pub fields: Vec<FieldChange>,
    /// The properties whose verdicts differ, and those that both violate.
    pub properties: Vec<PropertyChange>,
    /// How runs can end.
    pub endings: EndingsDiff,
}

/// A property's verdict in two protocols.
#[derive(Clone, Debug, PartialEq)]
pub struct PropertyChange {
    /// The property.
    pub property: PropertyName,
    /// In the first.
    pub before: Verdict,
    /// In the second.
    pub after: Verdict,
}

impl PropertyChange {
    /// Whether the second protocol violates it and the first does not.
    pub fn is_worse(&self) -> bool {
        matches!(self.after, Verdict::Violated(_)) && !matches!(self.before, Verdict::Violated(_))
    }
}

/// How runs of one protocol can end and those of another can't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndingsDiff {
    /// They were compared.
    Compared {
        /// Those of the first protocol alone.
        only_before: Vec<Ending>,
        /// Those of the second protocol alone.
        only_after: Vec<Ending>,
        /// How many they have in common.
        common: usize,
        /// Whether every state of both was looked at. If not, those of one alone may be the other's as well.
        exhaustive: bool,
        /// Whether records in the ledger were compared: only if both have them.
        with_records: bool,
    },
    /// There is no common ground.
    Incomparable(&'static str),
}

impl Diff {
    /// Whether any property got worse.
    pub fn is_worse(&self) -> bool {
        self.properties.iter().any(PropertyChange::is_worse)
    }
}

/// Compares two protocols that have been checked. For how runs end both are explored once more, one state after the other:
/// `limits` says how far.
///
/// # Errors
/// [`Unbuildable`] if a description has a bound out of range or contradicts itself.
pub fn diff(before: &Report, after: &Report, limits: Limits) -> Result<Diff, Unbuildable> {
    let pairs = before.verdicts.iter().map(|(property, verdict)| PropertyChange {
        property: *property,
        before: verdict.clone(),
        after: after.verdict(*property).clone(),
    });
    let both_violate = |change: &PropertyChange| matches!(change.before, Verdict::Violated(_));
    let differs = |change: &PropertyChange| discriminant(&change.before) != discriminant(&change.after);
    Ok(Diff {
        fields: field_changes(&before.description, &after.description),
        properties: pairs.filter(|change| differs(change) || both_violate(change)).collect(),
        endings: compare(&before.description, &after.description, limits)?,
    })
}

fn compare(before: &Description, after: &Description, limits: Limits) -> Result<EndingsDiff, Unbuildable> {
    if before.devices.is_some() != after.devices.is_some() {
        return Ok(EndingsDiff::Incomparable("one is a protocol of devices, and the other is not"));
    }
    let (mut before, mut after) = (before.clone(), after.clone());
    // What can become of one operation is all there is to see of operations that have nothing in common.
    if before.operations_are_independent() && after.operations_are_independent() {
        (before.caller.operations, after.caller.operations) = (1, 1);
    }
    if before.devices.is_none() && before.caller.operations != after.caller.operations {
        return Ok(EndingsDiff::Incomparable("they have different numbers of logical calls (see --operations)"));
    }
    let with_records = !before.is_direct() && !after.is_direct();
    let alike = before.devices.is_none()
        && (crate::world::Rules::calls_may_be_renamed(&before) || crate::world::Rules::calls_may_be_renamed(&after));
    let (of_before, of_after) = std::thread::scope(|scope| {
        let other = scope.spawn(|| endings(&after, limits.states, limits.time));
        let one = endings(&before, limits.states, limits.time);
        (one, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (of_before, of_after) = (of_before?, of_after?);
    let exhaustive = of_before.exhaustive && of_after.exhaustive;
    let seen = |endings: Endings| -> std::collections::BTreeSet<Ending> {
        let each = endings.all.into_iter().map(|mut ending| {
            if alike {
                ending.calls.sort();
            }
            if !with_records {
                ending.records.clear();
            }
            ending
        });
        each.collect()
    };
    let (of_before, of_after) = (seen(of_before), seen(of_after));
    Ok(EndingsDiff::Compared {
        only_before: of_before.difference(&of_after).cloned().collect(),
        only_after: of_after.difference(&of_before).cloned().collect(),
        common: of_before.intersection(&of_after).count(),
        exhaustive,
        with_records,
    })
}
