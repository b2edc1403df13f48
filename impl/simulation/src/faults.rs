//! What goes wrong at a time of its own.

use std::sync::Arc;
use std::time::Duration;

use settled_ledger_file::log::disk::Faults;

use crate::fault::{Fault, FaultAt};
use crate::guard;
use crate::world::World;

/// Lets one fault happen, and end.
pub(crate) async fn happen(world: Arc<World>, FaultAt { at, fault }: FaultAt) {
    world.until(at).await;
    let disk = world.server.disk();
    match fault {
        Fault::Kill { guard, down } => {
            if guard::kill(&world, guard) {
                world.fault(fault.name());
            }
            pause(down).await;
            guard::start_again(&world, guard);
        }
        Fault::Stop { guard, pause: for_so_long } => {
            let Some(process) = world.guard(guard).process.filter(|process| process.is_running()) else { return };
            world.fault(fault.name());
            process.stop(true);
            pause(for_so_long).await;
            world.note(format_args!("guard {guard} goes on"));
            process.stop(false);
        }
        Fault::CutLedger { guard, pause: for_so_long } => {
            world.fault(fault.name());
            world.with_guard(guard, |guard| guard.cut_from_ledger(true));
            pause(for_so_long).await;
            world.with_guard(guard, |guard| guard.cut_from_ledger(false));
        }
        Fault::CutTools { guard, pause: for_so_long } => {
            world.fault(fault.name());
            world.with_guard(guard, |guard| guard.cut_from_tools(true));
            pause(for_so_long).await;
            world.with_guard(guard, |guard| guard.cut_from_tools(false));
        }
        Fault::LedgerDown { pause: for_so_long } => {
            if disk.is_some() {
                return;
            }
            world.fault(fault.name());
            world.ledger_down(true);
            pause(for_so_long).await;
            world.ledger_down(false);
        }
        Fault::PowerFails { down } => {
            world.fault(fault.name());
            guard::power_fails(&world);
            pause(down).await;
            (0..world.plan.guards).for_each(|guard| guard::start_again(&world, guard));
        }
        Fault::SyncFails { nth } => {
            let Some(disk) = disk else { return };
            world.fault(fault.name());
            disk.fail(Faults { fail_sync: Some(nth), ..Faults::default() }, false);
        }
        Fault::WriteFails { nth } => {
            let Some(disk) = disk else { return };
            world.fault(fault.name());
            disk.fail(Faults { fail_write: Some(nth), ..Faults::default() }, false);
        }
        Fault::ShortWrites => {
            let Some(disk) = disk else { return };
            world.fault(fault.name());
            disk.fail(Faults { short_writes: true, ..Faults::default() }, false);
        }
        Fault::DiskFull { left, pause: for_so_long } => {
            let Some(disk) = disk else { return };
            world.fault(fault.name());
            disk.fill(Some(left));
            pause(for_so_long).await;
            disk.fill(None);
        }
        Fault::KillHolder { after, power } => {
            let Some(disk) = disk else { return };
            world.fault(fault.name());
            disk.fail(Faults { stop_after: Some(after), ..Faults::default() }, power);
        }
        Fault::HangUp { guard, down } => {
            let place = world.guard(guard);
            if !place.client.as_ref().is_some_and(|client| client.hang_up()) {
                return;
            }
            world.fault(fault.name());
            pause(down).await;
            // The proxy may still be busy with what its client has left.
            let now = world.guard(guard).process;
            if now.zip(place.process).is_some_and(|(now, before)| Arc::ptr_eq(&now, &before)) {
                guard::start(&world, guard);
            }
        }
        Fault::EndProxy { guard } => {
            if world.guard(guard).tell.is_some_and(|tell| tell.send(()).is_ok()) {
                world.fault(fault.name());
            }
        }
        Fault::KillServer { guard } => {
            if world.guard(guard).server.is_some_and(|server| server.dies()) {
                world.fault(fault.name());
            }
        }
        Fault::ClockSet { guard, by } => {
            world.fault(fault.name());
            world.with_guard(guard, |guard| guard.set_clock(by));
        }
    }
}

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
