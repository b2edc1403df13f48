//! The cells in the words of the model.

use settled_model::{Fault, PropertyName};

use crate::cell::Cell;

/// The property of the model that is at stake in a cell.
#[must_use]
pub const fn property(cell: Cell) -> Option<PropertyName> {
    Some(match cell {
        Cell::NoFault => PropertyName::Settles,
        // Can it go on at all?
        Cell::DiskFull | Cell::DiskReadOnly | Cell::TornWrite => PropertyName::CanSettle,
        Cell::DeniedThenApproved => PropertyName::NoFalseFailure,
        _ => PropertyName::AtMostOnce,
    })
}

/// The fault of the model that a cell is, if the model has it.
#[must_use]
pub const fn fault(cell: Cell) -> Option<Fault> {
    match cell {
        Cell::KillBeforeEffect
        | Cell::KillAfterEffect
        | Cell::KillAfterAnswer
        | Cell::KillAfterRecord
        | Cell::KillAtWrites
        | Cell::KillAtRandom
        | Cell::ResumedWithInput
        | Cell::ResumedTwice
        | Cell::ApprovedThenKilled => Some(Fault::ClientCrash),
        Cell::AnswerLost | Cell::AnswersLost => Some(Fault::LostReply),
        Cell::LateEffect => Some(Fault::Timeout),
        Cell::Cancelled => Some(Fault::Cancel),
        Cell::ToolRestarted => Some(Fault::ToolCrashAfter),
        Cell::DeliveredTwice => Some(Fault::Duplicate),
        Cell::DiskFull => Some(Fault::DiskFull),
        Cell::TornWrite => Some(Fault::TornWrite),
        Cell::StoppedAndWoken => Some(Fault::Takeover),
        Cell::ClockJumped => Some(Fault::ClockJump),
        Cell::ResumedAtOnce | Cell::ApprovedAtOnce => Some(Fault::ConcurrentCall),
        Cell::NoFault
        | Cell::DiskReadOnly
        | Cell::ApprovedTwice
        | Cell::DeniedThenApproved
        | Cell::ParallelApproved => None,
    }
}
