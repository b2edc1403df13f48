//! The schedules of unsafe protocols, and the sound protocol of the same kind of tool.

use serde::Serialize;
use settled_model::description::{CallerRules, Kind};
use settled_model::{Description, Fault, PropertyName, Rules, Trace};

use crate::conductor::{Options, Parted, Stage};
use crate::outcome::Files;
use crate::run::{Run, TraceError};
use crate::verified::verified;

/// What came of a sound protocol under an unsafe one's schedule.
#[derive(Clone, Debug, Serialize)]
pub struct Survival {
    /// The sound protocol.
    pub protocol: String,
    /// Whose schedule it was.
    pub schedule: String,
    /// The property that the schedule violates there.
    pub schedule_of: PropertyName,
    /// How many of the schedule's steps there are.
    pub steps: usize,
    /// How many of them there was something to do about.
    pub made: usize,
    /// The effects for each logical call.
    pub effects: Vec<usize>,
    /// The properties that were seen violated: none, if all is well.
    pub violated: Vec<PropertyName>,
    /// What the recorded run itself says: the properties that it shows violated.
    pub verified: Vec<String>,
    /// Why it could not be carried out to its end, if so.
    pub broken: Option<Parted>,
}

impl Survival {
    pub(crate) fn of(trace: &Trace, sound: &str) -> Survival {
        Survival {
            protocol: sound.to_owned(),
            schedule: trace.protocol.clone(),
            schedule_of: trace.property,
            steps: trace.steps.len(),
            made: 0,
            effects: Vec::new(),
            violated: Vec::new(),
            verified: Vec::new(),
            broken: None,
        }
    }

    /// Whether every property held to the end.
    pub fn survived(&self) -> bool {
        self.violated.is_empty() && self.verified.is_empty() && self.broken.is_none()
    }
}

/// Faults that a protocol is sound under only if it says so: they are what its promises rest on, rather than accidents.
const ASSUMED: [Fault; 6] =
    [Fault::Duplicate, Fault::Delay, Fault::Pause, Fault::ClockSkew, Fault::ClockJump, Fault::KeyReuse];

/// The sound protocol among these for a schedule: for the same kind of tool and of calls, if there is one that is sound under
/// the schedule's faults, and else for another kind.
pub fn sound_counterpart<'a>(
    trace: &Trace,
    theirs: &Description,
    sound: &'a [Description],
    proxied: bool,
) -> Option<&'a Description> {
    let needed: Vec<Fault> = Fault::ALL.iter().copied().filter(|fault| *trace.faults.clone().of(*fault) > 0).collect();
    let has = |sound: &Description, fault: Fault| *sound.faults.clone().of(fault) > 0;
    let rests_on = |sound: &Description| {
        let assumed = needed.iter().filter(|fault| ASSUMED.contains(fault));
        assumed.into_iter().all(|fault| has(sound, *fault) || sound.cannot_happen(*fault).is_some())
    };
    let lines = theirs.caller.same_resource;
    let retains = theirs.guard.window > 0 || theirs.budget.memory > 0;
    let fits = |sound: &Description| {
        let kind = sound.tool.kind == theirs.tool.kind;
        let lined = sound.guard.resources.is_line() == lines && (!lines || sound.tool.lasting == theirs.tool.lasting);
        let kept = (sound.guard.window > 0) == retains;
        let covered = needed.iter().filter(|fault| has(sound, **fault)).count();
        // What its promise rests on comes first; then the tool; then the calls; then how many of the faults it names.
        (rests_on(sound), kind, lined, kept, covered)
    };
    let usable = sound.iter().filter(|sound| match proxied {
        true => matches!(sound.name.as_str(), "settled-opaque" | "settled-deduplicates"),
        false => sound.tool.kind != Kind::Transactional,
    });
    let best = usable.rev().max_by_key(|sound| fits(sound))?;
    // What a proxy's configuration here can't say, it is not asked.
    let said = rests_on(best) && best.tool.kind == theirs.tool.kind && !lines && !theirs.tool.lasting && !retains;
    (!proxied || said).then_some(best)
}

/// The properties that a sound protocol is held to under a foreign schedule.
const PROMISED: [PropertyName; 8] = [
    PropertyName::AtMostOnce,
    PropertyName::NoPhantomSuccess,
    PropertyName::NoFalseFailure,
    PropertyName::FaithfulReplay,
    PropertyName::NoSuppression,
    PropertyName::IntentFirst,
    PropertyName::NoOverlap,
    PropertyName::Settles,
];

/// Lets the sound protocol go through an unsafe one's schedule, as far as that gets, and then to its end.
///
/// # Errors
/// If the trace is no run of its description.
pub async fn survive(trace: &Trace, sound: &Description, options: &Options) -> Result<Survival, TraceError> {
    let run = Run::of(trace)?;
    let mut description = sound.clone();
    let theirs = &run.rules.description;
    description.caller = CallerRules { key: sound.caller.key, new_key_after_failure: true, ..theirs.caller.clone() };
    description.guard.processes = theirs.guard.processes.max(1).max(sound.guard.processes);
    let mut survival = Survival::of(trace, &sound.name);
    let name = format!("{}.{}.{}", sound.name, trace.protocol, trace.property.name().replace(' ', "-"));
    let files = match Files::new(options, &name) {
        Ok(files) => files,
        Err(broken) => return Ok(Survival { broken: Some(broken), ..survival }),
    };
    // An attempt of a sound protocol may run out of time in the end, whichever it is.
    let keys = (0..=u8::MAX).collect();
    match Stage::start(Rules::new(description.clone()), keys, files.path(), options.clone()).await {
        Err(parted) => survival.broken = Some(parted),
        Ok(mut stage) => {
            survival.broken = go_through(&mut stage, &run, &mut survival.made).await.err();
            let shared = description.caller.same_resource;
            stage.end().await;
            match verified(&files.path(), stage.keys(), shared, true).await {
                Some(violated) => survival.verified = violated,
                None => survival.broken = survival.broken.or_else(unread),
            }
            let evidence = &stage.evidence;
            survival.effects = (0..description.caller.operations).map(|call| evidence.effects_of(call)).collect();
            let wrong = |property: &PropertyName| evidence.violates(*property, &description) == Some(true);
            survival.violated = PROMISED.into_iter().filter(wrong).collect();
        }
    }
    files.end();
    Ok(survival)
}

/// What can't be read proves nothing.
fn unread() -> Option<Parted> {
    Some(Parted { expected: "the guards’ histories are verified".into(), seen: "they can’t be read".into() })
}

async fn go_through(stage: &mut Stage, run: &Run, made: &mut usize) -> Result<(), Parted> {
    stage.follow_loosely();
    for (number, (taken, text)) in (1..).zip(&run.steps) {
        stage.log_step(number, text);
        match stage.carry_out_loosely(taken, &run.rules).await {
            Ok(()) => *made += 1,
            // There is nothing of the kind here: the schedule goes on.
            Err(parted) => stage.log_step(number, &format!("nothing to do: {}; {}", parted.expected, parted.seen)),
        }
    }
    stage.let_end().await
}
