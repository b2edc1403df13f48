//! The world that a cell is predicted in: the protocol's, with the workload's steps and without any other fault.

use settled_model::description::{
    Again, BudgetRules, CallerRules, Checkpoint, GuardRules, Kind, LedgerRules, ToolRules,
};
use settled_model::{Description, Faults};

use crate::cell::{Cell, Workload};

/// The most calls that a caller can make.
const MOST_CALLS: u8 = 4;

/// The protocol as the workload and the harness have it; `None` if no such world can be built.
pub(super) fn of(protocol: &Description, behind: bool, cell: Cell) -> Option<Description> {
    if protocol.devices.is_some() {
        return None;
    }
    let mut world = protocol.clone();
    world.faults = Faults { client_crashes: 1, ..Faults::default() };
    world.budget = BudgetRules::default();
    world.caller.sequential = true;
    world.caller.operations = if cell.workload() == Workload::Approval { 2 } else { 3 };
    if behind && world.is_direct() {
        world.guard = GuardRules { processes: 1, ..GuardRules::default() };
        world.ledger = LedgerRules::default();
        world.tool = ToolRules { kind: Kind::Observable, ..ToolRules::default() };
    }
    if cell == Cell::ResumedWithInput {
        // Whatever a kill leaves, the input begins anew.
        world.caller.after_crash = Again::Retry;
    }
    if cell == Cell::ApprovedThenKilled && world.caller.checkpoint == Checkpoint::AtEnd {
        // The process that came to the approval has ended, and saved what it had done.
        world.caller.checkpoint = Checkpoint::PerAnswer;
        world.caller.after_crash = Again::Retry;
    }
    // A resume takes a call of its own; where each call has its own key, there is room for fewer.
    let calls = (1..=world.caller.calls.saturating_add(2).min(MOST_CALLS)).rev();
    calls
        .map(|calls| Description { caller: CallerRules { calls, ..world.caller.clone() }, ..world.clone() })
        .find(|world| world.validate().is_ok())
}
