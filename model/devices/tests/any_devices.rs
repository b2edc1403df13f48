//! Descriptions that nobody wrote: each is refused with a reason or can be explored, and every sound one holds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::search;
use proptest::prelude::*;
use settled_devices_model::description::{Apply, Clock, Dating, Merge, OpId, Queue, Redated, Target, Ties};
use settled_devices_model::{DeviceWorld, Devices, FAULTS};
use settled_explorer::{Budget, Fault, Faults, Readable, System};

fn faults(most: u8) -> impl Strategy<Value = Faults> {
    prop::collection::vec(0..=most, FAULTS.len()).prop_map(|bounds| {
        let mut faults = Faults::default();
        for (fault, bound) in FAULTS.iter().zip(bounds) {
            *faults.of(*fault) = bound;
        }
        faults
    })
}

fn devices() -> impl Strategy<Value = Devices> {
    use prop::sample::select;
    (
        (0u8..=4, 0u8..=3),
        select(vec![Target::Register, Target::Register, Target::Register, Target::Counter]),
        select(vec![Merge::Latest, Merge::Earliest, Merge::FirstArrival, Merge::LastArrival]),
        select(vec![Ties::Device, Ties::Arrival]),
        select(vec![Clock::HybridLogical, Clock::Logical, Clock::Wall]),
        select(vec![
            (Dating::Device, Redated::TakenOver),
            (Dating::Server, Redated::TakenOver),
            (Dating::Server, Redated::Kept),
        ]),
        select(vec![Apply::Atomic, Apply::ResultAfter]),
        select(vec![OpId::Device, OpId::Server]),
        select(vec![Queue::UntilAcknowledged, Queue::UntilSent]),
    )
        .prop_map(|((devices, operations), target, merge, ties, clock, (dating, redated), apply, op_id, queue)| {
            Devices { devices, operations, target, merge, ties, clock, dating, redated, apply, op_id, queue }
        })
}

/// Devices whose server corrects event times: that goes with few other choices.
fn corrected() -> impl Strategy<Value = Devices> {
    use prop::sample::select;
    let choices = (select(vec![Merge::Latest, Merge::Earliest]), select(vec![Redated::TakenOver, Redated::Kept]));
    (1u8..=3, 1u8..=2, choices).prop_map(|(devices, operations, (merge, redated))| Devices {
        devices,
        operations,
        merge,
        dating: Dating::Server,
        redated,
        ..Devices::default()
    })
}

fn sound() -> impl Strategy<Value = Devices> {
    (devices(), prop::sample::select(vec![(1, 1), (1, 2), (2, 1)])).prop_map(|(any, (devices, operations))| {
        let register = any.target == Target::Register;
        let merge = match any.merge {
            Merge::Latest | Merge::LastArrival => Merge::Latest,
            Merge::Earliest | Merge::FirstArrival => Merge::Earliest,
        };
        let clock = match any.clock {
            // Nothing is said of causality where the earliest wins.
            Clock::Wall if merge == Merge::Latest => Clock::HybridLogical,
            clock => clock,
        };
        let sound = Devices { devices, operations, target: any.target, ..Devices::default() };
        match (register, any.dating) {
            (true, Dating::Server) => Devices { merge, dating: any.dating, ..sound },
            (true, Dating::Device) => Devices { merge, clock, ..sound },
            (false, _) => sound,
        }
    })
}

/// Walks through the world at random, and checks at each step what `System` asks for.
fn walk(world: &DeviceWorld, choices: &[prop::sample::Index]) -> Result<(), TestCaseError> {
    let (mut state, mut left) = (world.initial(), world.bounds());
    for choice in choices {
        let (mut moves, mut free) = (Vec::new(), Vec::new());
        world.moves(&state, left, &mut moves);
        world.moves(&state, Budget::default(), &mut free);
        let no_fault: Vec<_> = moves.iter().copied().filter(|(_, fault)| fault.is_none()).collect();
        prop_assert_eq!(&no_fault, &free, "what is no fault is offered whatever is left");
        prop_assert!(world.violated(&state).without(world.properties()).is_empty());
        if moves.is_empty() {
            break;
        }
        let (what, fault) = moves[choice.index(moves.len())];
        let next = world.apply(&state, what);
        prop_assert!(next.is_some(), "{:?} changes nothing in {:?}", what, state);
        let next = next.unwrap();
        prop_assert!(!world.say(&state, what, &next).text.is_empty());
        prop_assert_eq!(world.snapshot(&next).callers.len(), world.snapshot(&state).callers.len());
        prop_assert!(world.effects(&next).iter().all(|effects| *effects <= 2));
        left = fault.map_or(left, |fault| left.spend(fault).unwrap());
        state = next;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_description_is_refused_or_can_be_explored(
        devices in prop_oneof![3 => devices(), 1 => corrected()],
        faults in faults(4),
        choices in prop::collection::vec(any::<prop::sample::Index>(), 80),
    ) {
        match DeviceWorld::new("any", &devices, faults) {
            Err(refused) => prop_assert!(!refused.field.is_empty() && !refused.reason.is_empty()),
            Ok(world) => walk(&world, &choices)?,
        }
        let json = serde_json::to_string(&devices).unwrap();
        prop_assert_eq!(serde_json::from_str::<Devices>(&json).unwrap(), devices);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_sound_description_holds(devices in sound(), faults in faults(2)) {
        let found = search(&DeviceWorld::new("sound", &devices, faults).unwrap());
        prop_assert!(found.violated().is_empty(), "{:#?}", found.traces);
        prop_assert!(found.states > 1);
    }
}

#[test]
fn descriptions_are_read_strictly() {
    let read = |json: &str| serde_json::from_str::<Devices>(json);
    assert_eq!(read("{}").unwrap(), Devices::default());
    assert_eq!(read(r#"{ "op-id": "server" }"#).unwrap(), Devices { op_id: OpId::Server, ..Devices::default() });
    assert!(read(r#"{ "op_id": "server" }"#).is_err());
    assert!(read(r#"{ "merge": "newest" }"#).is_err());
}

#[test]
fn what_can_t_be_built_is_refused_by_field() {
    let refused = |devices: Devices, faults: Faults| DeviceWorld::new("x", &devices, faults).unwrap_err();
    let sound = Devices::default();
    let none = Faults::default();
    assert_eq!(refused(Devices { devices: 4, ..sound }, none).field, "devices");
    assert_eq!(refused(Devices { operations: 0, ..sound }, none).field, "operations");
    assert_eq!(refused(Devices { devices: 3, ..sound }, none).field, "operations");
    let counter = Devices { target: Target::Counter, ..sound };
    assert_eq!(refused(Devices { clock: Clock::Wall, ..counter }, none).field, "clock");
    assert_eq!(refused(Devices { redated: Redated::Kept, ..sound }, none).field, "redated");
    assert_eq!(refused(Devices { dating: Dating::Server, clock: Clock::Wall, ..sound }, none).field, "dating");
    assert_eq!(refused(Devices { dating: Dating::Server, ..counter }, none).field, "dating");
    assert_eq!(refused(sound, Faults { duplicates: 5, ..none }).field, "duplicates");
    assert_eq!(DeviceWorld::new("", &sound, none).unwrap_err().field, "name");
    for fault in Fault::ALL.iter().filter(|fault| !FAULTS.contains(fault)) {
        let mut faults = none;
        *faults.of(*fault) = 1;
        assert_eq!(refused(sound, faults).field, fault.name());
    }
    let reason = refused(sound, Faults { reorderings: 1, ..none }).reason;
    assert!(reason.contains("any order"), "{reason}");
}
