//! The harness's faults as moves of the model's world: at which moment, and what they do to it.

use settled_explorer::{Budget, Fault, Faults};
use settled_model::description::Again;
use settled_model::world::{Heard, How, Message, Move, Phase, Rules, World};

use crate::cell::Cell;

/// The worlds that a fault can turn this one into; none, if it is not the moment.
pub(super) type Strike = fn(&Rules, &World) -> Vec<World>;

/// The steps, as logical calls.
const B: u8 = 1;
const C: u8 = 2;

/// What a cell does to a world, alone or behind `settled`; `None` if the model can't say it.
pub(super) fn of(cell: Cell, behind: bool) -> Option<Strike> {
    match cell {
        // What is doubled is on its way to the guard.
        Cell::DeliveredTwice if behind => Some(|rules, world| at_once(rules, world, B)),
        Cell::NoFault => Some(|_, world| vec![*world]),
        Cell::KillBeforeEffect => Some(|rules, world| kill_before_effect(rules, world, B)),
        Cell::KillAfterRecord | Cell::ResumedTwice => Some(|rules, world| kill_before_effect(rules, world, C)),
        Cell::KillAfterEffect | Cell::ResumedWithInput | Cell::ApprovedThenKilled => Some(kill_after_effect),
        Cell::ClockJumped => Some(clock_jumped),
        Cell::KillAfterAnswer => Some(kill_after_answer),
        Cell::KillAtWrites | Cell::KillAtRandom => Some(kill_at_any_moment),
        Cell::AnswerLost | Cell::AnswersLost => Some(answer_lost),
        Cell::LateEffect => Some(late_effect),
        Cell::Cancelled => Some(cancelled),
        Cell::ToolRestarted => {
            Some(|rules, world| each_request(rules, world, B, |request| Move::Apply { request, how: How::CrashAfter }))
        }
        Cell::DeliveredTwice => {
            Some(|rules, world| each_request(rules, world, B, |request| Move::Duplicate { request }))
        }
        Cell::StoppedAndWoken => {
            Some(|rules, world| if effects(world, B) == 1 { at_once(rules, world, B) } else { vec![] })
        }
        Cell::ResumedAtOnce => Some(resumed_at_once),
        Cell::ApprovedAtOnce => Some(|rules, world| at_once(rules, world, B)),
        // What is on the framework's disk, and what a second answer to one question means, the model can't say.
        Cell::DiskFull
        | Cell::DiskReadOnly
        | Cell::TornWrite
        | Cell::ApprovedTwice
        | Cell::DeniedThenApproved
        | Cell::ParallelApproved => None,
    }
}

/// What may happen once more after the strike.
pub(super) fn more(cell: Cell) -> Faults {
    match cell {
        Cell::ResumedAtOnce | Cell::ApprovedAtOnce => Faults { concurrent_calls: 1, ..Faults::default() },
        Cell::AnswersLost => Faults { lost_replies: 1, ..Faults::default() },
        _ => Faults::default(),
    }
}

fn effects(world: &World, call: u8) -> usize {
    world.effects_of(call)
}

fn is_waiting(world: &World, call: u8) -> bool {
    matches!(world.callers[usize::from(call)].phase, Phase::Waiting { .. })
}

/// The request of a step that is on its way to the tool for the first time.
fn request(world: &World, call: u8) -> Option<Message> {
    let its = |message: &Message| matches!(message, Message::Request { call: its, .. } if *its == call);
    (effects(world, call) == 0 && is_waiting(world, call)).then(|| world.messages().find(its)).flatten()
}

/// The answer to a step on its way back.
fn reply(rules: &Rules, world: &World, call: u8) -> Option<Message> {
    let key = rules.key_of(call, &world.callers[usize::from(call)]);
    let its = |message: &Message| matches!(message, Message::Reply { .. }) && message.key() == key;
    (effects(world, call) == 1 && is_waiting(world, call)).then(|| world.messages().find(its)).flatten()
}

fn each_request(rules: &Rules, world: &World, call: u8, what: fn(Message) -> Move) -> Vec<World> {
    request(world, call).and_then(|request| rules.apply(world, what(request))).into_iter().collect()
}

fn lose(rules: &Rules, world: &World, message: Message) -> World {
    rules.apply(world, Move::Lose { message }).unwrap_or(*world)
}

/// The framework is killed: alone, and together with a guard that is one of its processes.
fn kill(rules: &Rules, world: &World) -> Vec<World> {
    let Some(killed) = rules.apply(world, Move::CrashClient) else { return Vec::new() };
    let guards = 0..rules.description.guard.processes;
    guards.filter_map(|guard| rules.apply(&killed, Move::CrashGuard { guard })).chain([killed]).collect()
}

/// Where nothing is under way nothing is lost.
fn kill_at_any_moment(rules: &Rules, world: &World) -> Vec<World> {
    let struck = kill(rules, world);
    if struck.is_empty() { vec![*world] } else { struck }
}

fn kill_before_effect(rules: &Rules, world: &World, call: u8) -> Vec<World> {
    let Some(request) = request(world, call) else { return Vec::new() };
    kill(rules, &lose(rules, world, request))
}

fn kill_after_effect(rules: &Rules, world: &World) -> Vec<World> {
    let Some(reply) = reply(rules, world, B) else { return Vec::new() };
    kill(rules, &lose(rules, world, reply))
}

fn clock_jumped(rules: &Rules, world: &World) -> Vec<World> {
    let jump = |killed: World| {
        let guards = 0..rules.description.guard.processes;
        let jumps = guards.map(|guard| Move::SetClock { guard, ahead: true, jump: true });
        jumps.fold(killed, |world, jump| rules.apply(&world, jump).unwrap_or(world))
    };
    kill_after_effect(rules, world).into_iter().map(jump).collect()
}

/// Between the answer and its record; the next step may be under way.
fn kill_after_answer(rules: &Rules, world: &World) -> Vec<World> {
    let caller = &world.callers[usize::from(B)];
    let answered = matches!(caller.phase, Phase::Told(Heard::Done(_))) && !caller.saved;
    if answered { kill(rules, world) } else { Vec::new() }
}

fn answer_lost(rules: &Rules, world: &World) -> Vec<World> {
    reply(rules, world, B).map(|reply| lose(rules, world, reply)).into_iter().collect()
}

/// Whoever waits gives up: the caller calls again, or leaves it; or it is the guard that does.
fn late_effect(rules: &Rules, world: &World) -> Vec<World> {
    let Some(request) = request(world, B) else { return Vec::new() };
    let (stops, direct) = (rules.description.caller.after_silence == Again::Stop, rules.description.is_direct());
    if stops && !direct {
        // In the model a caller waits for its guard as long as that takes.
        return Vec::new();
    }
    let mut struck = by(rules, world, &[Fault::Timeout, Fault::ConcurrentCall]);
    if stops {
        // Who leaves it hears nothing any more.
        let late = rules.apply(world, Move::Apply { request, how: How::Answered });
        let unheard = late.and_then(|late| Some(lose(rules, &late, reply(rules, &late, B)?)));
        struck.extend(unheard);
    }
    struck
}

/// The signal ends the framework, or has it cancel its run, as far as the protocol tells one from the other; what was sent goes
/// on.
fn cancelled(rules: &Rules, world: &World) -> Vec<World> {
    if request(world, B).is_none() {
        return Vec::new();
    }
    let caller = &rules.description.caller;
    let cancel = || rules.apply(world, Move::Cancel { call: B });
    match (caller.after_cancel, caller.after_crash) {
        (Again::Stop, _) => kill(rules, world).into_iter().chain(cancel()).collect(),
        (Again::Retry, Again::Retry) => kill(rules, world),
        (Again::Retry, Again::Stop) => cancel().into_iter().collect(),
    }
}

/// The step is called again while it is served.
fn at_once(rules: &Rules, world: &World, call: u8) -> Vec<World> {
    if is_waiting(world, call) { by(rules, world, &[Fault::ConcurrentCall]) } else { Vec::new() }
}

/// Resumed by several processes: who comes second comes while the first is served.
fn resumed_at_once(rules: &Rules, world: &World) -> Vec<World> {
    if rules.description.is_direct() { Vec::new() } else { kill_before_effect(rules, world, C) }
}

/// What these faults lead to.
fn by(rules: &Rules, world: &World, faults: &[Fault]) -> Vec<World> {
    let mut budget = Faults::default();
    faults.iter().for_each(|fault| *budget.of(*fault) = 1);
    let mut moves = Vec::new();
    rules.moves(world, Budget::from(budget), &mut moves);
    let struck = moves.into_iter().filter(|(_, fault)| fault.is_some());
    struck.filter_map(|(what, _)| rules.apply(world, what)).collect()
}
