//! Defects that are put in on purpose are found, each within 2,000 seeds; the seed shows it again, and so does the smallest run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use settled_simulation::{Plan, Plant, Profile, Property, Runs};

/// Finds it by what it leads to, not only by the history that shows how the guard decided.
fn found(plant: Plant, as_one_of: &[Property]) {
    let (plan, property) = (0..2_000)
        .find_map(|seed| {
            let plan = Plan::draw(seed, Profile::Stormy, Some(plant));
            let wrong = plan.run(false).unwrap().violations;
            let shown = wrong.iter().find(|violation| as_one_of.contains(&violation.property))?;
            Some((plan, shown.property))
        })
        .unwrap_or_else(|| panic!("{} was not found", plant.name()));

    let seed = plan.seed;
    let once = Plan::draw(seed, Profile::Stormy, Some(plant)).run(false).unwrap();
    assert_eq!(once.violations, plan.run(false).unwrap().violations);
    let runs = Runs { from: seed, count: 1, profile: Profile::Stormy, plant: Some(plant), jobs: 1, enough: 1 };
    let summary = runs.run(&|_| {}).unwrap();
    assert_eq!(summary.failed.first().unwrap().violations, once.violations);

    let smallest = plan.minimised(property).unwrap();
    // As it is written down for people.
    let read: Plan = serde_json::from_str(&serde_json::to_string(&smallest).unwrap()).unwrap();
    let shown = read.run(true).unwrap();
    assert!(shown.violations.iter().any(|violation| violation.property == property));
    assert!(!shown.story.is_empty());
    assert!(smallest.calls.len() <= 3, "{} calls are left of {}", smallest.calls.len(), plan.calls.len());

    // Without the defect the very same run is well.
    let sound = Plan { plant: None, ..read }.run(false).unwrap();
    assert_eq!(sound.violations, []);
}

#[test]
fn sending_an_unknown_again() {
    found(Plant::ResendUnknown, &[Property::AtMostOnce, Property::UnknownBlocks]);
}

#[test]
fn taking_every_error_for_final() {
    found(Plant::BelieveErrors, &[Property::NoFalseFailure, Property::AtMostOnce]);
}

#[test]
fn concluding_too_early() {
    found(Plant::ObserveEarly, &[Property::AtMostOnce, Property::UnknownBlocks, Property::NoFalseFailure]);
}

#[test]
fn answering_other_arguments() {
    found(Plant::IgnoreArguments, &[Property::FaithfulReplay]);
}

#[test]
fn acknowledging_before_it_is_durable() {
    found(
        Plant::AcknowledgeEarly,
        &[Property::IntentFirst, Property::KeepsAcknowledged, Property::AtMostOnce, Property::FaithfulReplay],
    );
}

#[test]
fn answering_before_it_is_stored() {
    found(
        Plant::AnswerBeforeStore,
        &[Property::FaithfulReplay, Property::KeepsAcknowledged, Property::AtMostOnce, Property::NoFalseFailure],
    );
}
