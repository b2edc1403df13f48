//! A trace's steps as the model's own moves: the run is made again, and each step is found by what it says and leads to.

use settled_model::machine::View;
use settled_model::world::{Move, World};
use settled_model::{Description, FORMAT, PropertyName, Readable, Rules, System, Trace};

/// Why a trace can't be carried out.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It is no trace.
    #[error("this is no trace: {0}. `settled check NAME --trace FILE` writes one")]
    NoTrace(String),
    /// It is of another version.
    #[error(
        "the trace has format {found}, this program reads format {FORMAT}: write it anew with `settled check --trace`"
    )]
    Format {
        /// Its version.
        found: u64,
    },
    /// Its description is none, or can't be built.
    #[error("the trace's description can't be used: {0}")]
    Description(String),
    /// There is nothing that it could be carried out on.
    #[error("there is no implementation to replay it on: {0}")]
    NoImplementation(&'static str),
    /// The model of its description does not make this step there.
    #[error(
        "the trace parts from its own model at step {step}: after the steps before it, “{protocol}” has no step “{text}” that \
         leads to the state given; was the trace changed by hand?"
    )]
    NotARun {
        /// The step, from 1.
        step: usize,
        /// What it says.
        text: String,
        /// The protocol.
        protocol: String,
    },
}

/// One step: the world before it, the move, and the world after it.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The world before.
    pub before: World,
    /// The move.
    pub what: Move,
    /// The world after.
    pub after: World,
}

/// A trace whose steps are known as moves.
pub struct Run {
    /// The rules of its world.
    pub rules: Rules,
    /// The property that it violates.
    pub property: PropertyName,
    /// The steps, with what they say.
    pub steps: Vec<(Taken, String)>,
    /// Where the round begins that goes on for ever, if there is one.
    pub round: Option<usize>,
    /// The effects for each logical call at the end.
    pub effects: Vec<usize>,
}

/// Reads a trace.
///
/// # Errors
/// If the text is no trace of a version that is known.
pub fn read(text: &str) -> Result<Trace, TraceError> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|error| TraceError::NoTrace(format!("it is not JSON ({error})")))?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        None => return Err(TraceError::NoTrace("it has no “format”".to_owned())),
        Some(found) if found != u64::from(FORMAT) => return Err(TraceError::Format { found }),
        Some(_) => {}
    }
    serde_json::from_value(value).map_err(|error| TraceError::NoTrace(error.to_string()))
}

impl Run {
    /// Makes the trace's run again in the model of its description.
    ///
    /// # Errors
    /// If its description can't be used, or it is not a run of it.
    pub fn of(trace: &Trace) -> Result<Run, TraceError> {
        let description: Description = serde_json::from_value(trace.description.clone())
            .map_err(|error| TraceError::Description(error.to_string()))?;
        description.validate().map_err(|error| TraceError::Description(error.to_string()))?;
        if description.tool.kind == settled_model::description::Kind::Transactional {
            return Err(TraceError::NoImplementation("a transactional tool needs a database of its own"));
        }
        let rules = Rules::new(description);
        let walked = walk(&rules, trace)?;
        let world = walked.last().map_or(World::initial(), |(_, _, after, _)| *after);
        let steps =
            walked.into_iter().map(|(before, what, after, text)| (Taken { before, what, after }, text)).collect();
        let effects = Readable::effects(&rules, &world);
        Ok(Run { rules, property: trace.property, steps, round: trace.round, effects })
    }
}

/// A state, a move, the state that it leads to, and what it says.
pub type Walked<S> = (<S as System>::State, <S as System>::Move, <S as System>::State, String);

/// Makes a trace's run again.
///
/// # Errors
/// At the first step that the system doesn't make there; if what is said of the whole run is not so.
pub fn walk<S: Readable>(system: &S, trace: &Trace) -> Result<Vec<Walked<S>>, TraceError> {
    if let Some(begins) = trace.round.filter(|begins| *begins >= trace.steps.len()) {
        let text = format!("its round begins after step {begins}, and it has {} steps", trace.steps.len());
        return Err(TraceError::NoTrace(text));
    }
    if let Some(name) = trace.description.get("name").and_then(serde_json::Value::as_str)
        && name != trace.protocol
    {
        let text = format!("it is that of “{name}”, and the trace is said to be one of “{}”", trace.protocol);
        return Err(TraceError::Description(text));
    }
    let mut state = system.initial();
    let (mut steps, mut moves) = (Vec::new(), Vec::new());
    for (number, step) in (1..).zip(&trace.steps) {
        moves.clear();
        system.moves(&state, trace.faults.into(), &mut moves);
        let found = moves.iter().find_map(|(what, fault)| {
            if fault.map(|fault| fault.name()) != step.fault.as_deref() {
                return None;
            }
            let after = system.apply(&state, *what)?;
            let said = system.say(&state, *what, &after);
            let same = said.kind == step.kind && said.text == step.text && said.from == step.from;
            (same && system.snapshot(&after) == step.state).then_some((*what, after))
        });
        let text = format!("{}: {}", step.from, step.text);
        let Some((what, after)) = found else {
            return Err(TraceError::NotARun { step: number, text, protocol: trace.protocol.clone() });
        };
        steps.push((std::mem::replace(&mut state, after.clone()), what, after, text));
    }
    Ok(steps)
}

impl Taken {
    /// The key's record before and after, if the step changed it.
    pub fn changes(&self, rules: &Rules, key: u8) -> Option<(Option<View>, Option<View>)> {
        let (before, after) = (&self.before.keys[usize::from(key)], &self.after.keys[usize::from(key)]);
        (before.record != after.record).then(|| (rules.view_of(&self.before, key), rules.view_of(&self.after, key)))
    }
}
