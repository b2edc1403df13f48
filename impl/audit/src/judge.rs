//! What states and answers say about an experiment.

use crate::answer::Answer;
use crate::difference::{Measure, measure, told};
use crate::report::Verdict;
use crate::state::{Noise, State, changes, occurrences};
use crate::template::Fresh;

/// What one call does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    /// In words.
    pub(crate) effect: Vec<String>,
    pub(crate) measure: Measure,
    /// How many times more its fresh word is there after it.
    pub(crate) traces: usize,
    /// Whether each experiment's call is another one: only then something must change each time.
    pub(crate) is_fresh: bool,
    /// The word of the call that this was seen by.
    pub(crate) word: String,
}

impl Baseline {
    pub(crate) fn has_effect(&self) -> bool {
        !self.effect.is_empty()
    }

    /// Success must have an effect.
    fn must_change(&self) -> bool {
        self.has_effect() && self.is_fresh
    }
}

/// What one run of an experiment showed.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) verdict: Verdict,
    pub(crate) because: String,
    pub(crate) changes: Vec<String>,
    pub(crate) answers: Vec<String>,
}

impl Trial {
    pub(crate) fn new(verdict: Verdict, because: impl Into<String>) -> Trial {
        Trial { verdict, because: because.into(), changes: Vec::new(), answers: Vec::new() }
    }

    pub(crate) fn showing(self, changes: Vec<String>) -> Trial {
        Trial { changes, ..self }
    }

    pub(crate) fn answered(self, answers: &[&Answer]) -> Trial {
        Trial { answers: answers.iter().map(|answer| answer.line()).collect(), ..self }
    }
}

/// Two calls in sequence.
pub(crate) struct Sequence<'a> {
    pub(crate) states: [&'a State; 3],
    pub(crate) answers: [&'a Answer; 2],
    pub(crate) fresh: &'a Fresh,
    /// The caller never got the first answer: the second is all it knows.
    pub(crate) is_first_lost: bool,
    /// The state after a restart between the calls, if there was one.
    pub(crate) restarted: Option<&'a State>,
}

/// Judges a single call.
pub(crate) fn once(before: &State, after: &State, answer: &Answer, noise: &Noise) -> Trial {
    let effect = told(&changes(before, after, noise));
    let trial = match (answer, effect.is_empty()) {
        (Answer::Success(_), false) => Trial::new(Verdict::Safe, "it takes effect"),
        (Answer::Success(_), true) => Trial::new(Verdict::Safe, "nothing that is watched changes"),
        (Answer::ToolError(_) | Answer::Error(_), false) => {
            Trial::new(Verdict::WrongRecord, "the answer is an error, and it took effect")
        }
        (Answer::None(_), false) => Trial::new(Verdict::Unknown, "it takes effect, and is not answered"),
        (_, true) => Trial::new(Verdict::Unknown, "the call fails; give other arguments, with --arguments"),
    };
    trial.showing(effect).answered(&[answer])
}

/// Judges two calls, one after the other.
pub(crate) fn sequence(seen: &Sequence<'_>, baseline: &Baseline, noise: &Noise) -> Trial {
    let [before, middle, after] = seen.states;
    let [first, second] = seen.answers;
    if let Some(trial) = forgotten(seen, baseline) {
        return trial.answered(&[first, second]);
    }
    let one = changes(before, middle, noise);
    let two = changes(seen.restarted.unwrap_or(middle), after, noise);
    let trial = match (one.is_empty(), two.is_empty()) {
        (false, _) if first.is_error() => {
            Trial::new(Verdict::WrongRecord, "the first answer is an error, and it took effect").showing(told(&one))
        }
        (_, false) if second.is_error() => {
            Trial::new(Verdict::WrongRecord, "the second answer is an error, and it took effect").showing(told(&two))
        }
        (true, false) if seen.is_first_lost && is_once(before, after, seen.fresh, baseline, noise) => {
            Trial::new(Verdict::Safe, "the first call did not take effect, and the second did").showing(told(&two))
        }
        (false, false) if seen.is_first_lost && is_once(before, after, seen.fresh, baseline, noise) => {
            Trial::new(Verdict::Safe, "the second call completed the first").showing(told(&two))
        }
        (_, false) => Trial::new(Verdict::Duplicate, "the second call changed it again").showing(told(&two)),
        (true, true) if first.is_success() && !seen.is_first_lost && baseline.must_change() => {
            Trial::new(Verdict::WrongRecord, "the first answer is a success, and nothing happened")
        }
        (true, true) if seen.is_first_lost && second.is_success() && baseline.must_change() => {
            Trial::new(Verdict::WrongRecord, "the answer is a success, and nothing happened")
        }
        (true, true) if baseline.must_change() => {
            Trial::new(Verdict::Unknown, "neither call took effect, and both failed")
        }
        (false, true) if seen.is_first_lost && second.is_error() => Trial::new(
            Verdict::WrongRecord,
            "the first call took effect, and the second, whose answer is all that the caller gets, says that it failed",
        )
        .showing(told(&one)),
        (false, true) if second.is_error() => {
            Trial::new(Verdict::Safe, "the second call changed nothing further, and is answered with an error")
        }
        (false, true) if first.is_success() && first.text() != second.text() => {
            Trial::new(Verdict::Safe, "the second call changed nothing further; its answer is another one")
        }
        (_, true) => Trial::new(Verdict::Safe, "the second call changed nothing further"),
    };
    trial.answered(&[first, second])
}

/// Whether the server was killed and has forgotten what it did.
fn forgotten(seen: &Sequence<'_>, baseline: &Baseline) -> Option<Trial> {
    let [before, middle, _] = seen.states;
    match seen.restarted {
        Some(restarted) if baseline.traces > 0 => {
            let word = &seen.fresh.unique;
            (occurrences(restarted, word) < occurrences(middle, word)).then(|| {
                Trial::new(
                    Verdict::WrongRecord,
                    "the first answer is a success, and what it did is gone after the restart",
                )
            })
        }
        // What an earlier call did was there before this one.
        None if seen.is_first_lost && baseline.traces > 0 => (occurrences(middle, &baseline.word)
            < occurrences(before, &baseline.word))
        .then(|| Trial::new(Verdict::Unknown, "the server forgets what it did when it is killed")),
        _ => None,
    }
}

fn is_once(before: &State, after: &State, fresh: &Fresh, baseline: &Baseline, noise: &Noise) -> bool {
    measure(&changes(before, after, noise), std::slice::from_ref(fresh)) == baseline.measure
}

/// Judges the same call several times at once.
pub(crate) fn at_once(
    states: [&State; 2],
    answers: &[Answer],
    fresh: &Fresh,
    baseline: &Baseline,
    noise: &Noise,
) -> Trial {
    let [before, after] = states;
    let seen = changes(before, after, noise);
    let found = measure(&seen, std::slice::from_ref(fresh));
    let successes = answers.iter().filter(|answer| answer.is_success()).count();
    let traces = occurrences(after, &fresh.unique).saturating_sub(occurrences(before, &fresh.unique));
    let times = match baseline.traces {
        0 => None,
        once => Some(traces / once).filter(|times| *times > 1),
    };
    let trial = if seen.is_empty() && successes > 0 && baseline.must_change() {
        let because = format!("{successes} of {} answers are successes, and nothing happened", answers.len());
        Trial::new(Verdict::WrongRecord, because)
    } else if seen.is_empty() && successes == 0 && baseline.must_change() {
        Trial::new(Verdict::Unknown, "no call took effect, and all failed")
    } else if seen.is_empty() {
        Trial::new(Verdict::Safe, "nothing changed")
    } else if successes == 0 && answers.iter().all(Answer::is_error) {
        Trial::new(Verdict::WrongRecord, "all answers are errors, and it took effect")
    } else if found == baseline.measure {
        Trial::new(Verdict::Safe, "the state is that after one call")
    } else if let Some(times) = times {
        Trial::new(Verdict::Duplicate, format!("the effect is there {times} times"))
    } else if found.weight() > baseline.measure.weight() {
        Trial::new(Verdict::Duplicate, "it changed more than one call does")
    } else {
        Trial::new(Verdict::Unknown, "it changed otherwise than one call does")
    };
    let mut kinds: Vec<&Answer> = Vec::new();
    for answer in answers {
        if !kinds.contains(&answer) {
            kinds.push(answer);
        }
    }
    kinds.truncate(3);
    trial.showing(told(&seen)).answered(&kinds)
}

/// Judges several different calls at once: what each answer says must be there afterwards.
pub(crate) fn side_by_side(
    states: [&State; 2],
    calls: &[(Fresh, Answer)],
    baseline: &Baseline,
    noise: &Noise,
) -> Trial {
    let [before, after] = states;
    let seen = changes(before, after, noise);
    let traces = |fresh: &Fresh| occurrences(after, &fresh.unique).saturating_sub(occurrences(before, &fresh.unique));
    let successes = calls.iter().filter(|(_, answer)| answer.is_success()).count();
    let lost: Vec<&(Fresh, Answer)> =
        calls.iter().filter(|(fresh, answer)| answer.is_success() && traces(fresh) < baseline.traces).collect();
    let denied = calls.iter().find(|(fresh, answer)| answer.is_error() && traces(fresh) > 0);
    let fresh: Vec<Fresh> = calls.iter().map(|(fresh, _)| fresh.clone()).collect();
    let found = measure(&seen, &fresh);
    let trial = if successes == 0 {
        Trial::new(Verdict::Unknown, "all calls failed")
    } else if seen.is_empty() && !baseline.has_effect() {
        Trial::new(Verdict::Safe, "nothing changed")
    } else if baseline.traces > 0 && !lost.is_empty() {
        let because = format!(
            "{successes} answers are successes, and what {} of these calls did is not there: lost updates",
            lost.len()
        );
        Trial::new(Verdict::WrongRecord, because)
    } else if denied.is_some() && baseline.traces > 0 {
        Trial::new(Verdict::WrongRecord, "an answer is an error, and its call took effect")
    } else if baseline.traces > 0 || found == baseline.measure.times(successes) {
        Trial::new(Verdict::Safe, format!("{successes} calls succeeded, and what each did is there"))
    } else if found.weight() < baseline.measure.times(successes).weight() {
        let because =
            format!("{successes} answers are successes, and less changed than so many calls change: lost updates");
        Trial::new(Verdict::WrongRecord, because)
    } else {
        Trial::new(Verdict::Unknown, "what each call did can't be told apart: put {unique} into the arguments")
    };
    let failure = calls.iter().map(|(_, answer)| answer).find(|answer| !answer.is_success());
    let shown: Vec<&Answer> = calls.iter().map(|(_, answer)| answer).take(1).chain(failure).collect();
    trial.showing(told(&seen)).answered(&shown)
}
