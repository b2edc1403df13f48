//! Defects that are put in on purpose are found, each within 2,000 seeds; the seed shows it again, and so does the smallest run.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use settled_simulation::{Plan, Plant, Profile, Property, Runs};

fn found(plant: Plant, as_one_of: &[Property]) {
    let runs = Runs { from: 0, count: 2_000, profile: Profile::Stormy, plant: Some(plant), jobs: 2, enough: 1 };
    let summary = runs.run(&|_| {}).unwrap();
    let failed = summary.failed.first().unwrap_or_else(|| panic!("{} was not found", plant.name()));
    let property = failed.violations[0].property;
    assert!(as_one_of.contains(&property), "{} was found as {:?}", plant.name(), failed.violations);

    let plan = Plan::draw(failed.seed, Profile::Stormy, Some(plant));
    let again = plan.run(false).unwrap();
    assert_eq!(again.violations, failed.violations);

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
