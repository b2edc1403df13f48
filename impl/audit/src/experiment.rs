//! The experiments with one tool.

use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::client::Call;
use crate::difference::{measure, told};
use crate::error::AuditError;
use crate::file::Before;
use crate::judge::{self, Baseline, Sequence, Trial};
use crate::report::{Experiment, Verdict};
use crate::stage::Stage;
use crate::state::{changes, occurrences};
use crate::template::{Fresh, is_fresh_each_time};

/// A tool, and what it is called with.
pub(crate) struct Subject {
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) before: Vec<Before>,
}

/// What one call does, and what it was seen by.
pub(crate) struct First {
    pub(crate) baseline: Baseline,
    pub(crate) trial: Trial,
}

impl Subject {
    fn call(&self, fresh: &Fresh) -> Result<Call, AuditError> {
        Ok(Call { tool: self.tool.clone(), arguments: fresh.fill(&self.arguments)?, key: None, id: None })
    }

    /// New words, and what the call with them needs.
    async fn prepare(&self, stage: &mut Stage<'_>) -> Result<(Fresh, Call), AuditError> {
        let fresh = stage.fresh();
        for before in &self.before {
            let arguments = fresh.fill(&before.arguments)?;
            let answer = stage.call(&Call { tool: before.tool.clone(), arguments, key: None, id: None }).await?;
            if !answer.is_success() {
                let problem = format!("the call before, of `{}`: {}", before.tool, answer.line());
                return Err(AuditError::Server(problem));
            }
        }
        let call = self.call(&fresh)?;
        Ok((fresh, call))
    }

    /// What one call does. Another one comes before, since the first of all can do more: make a file, or a table.
    pub(crate) async fn first(&self, stage: &mut Stage<'_>) -> Result<First, AuditError> {
        let is_fresh = is_fresh_each_time(&self.arguments);
        let before_all = stage.state().await?;
        let mut seen = self.measured(stage, is_fresh).await?;
        if is_fresh && seen.trial.verdict == Verdict::Safe && !stage.watches.is_empty() {
            let again = self.measured(stage, is_fresh).await?;
            // A tool whose first call does something and whose second does nothing is seen by the first.
            if again.baseline.has_effect() || !seen.baseline.has_effect() {
                seen = again;
            }
        }
        let now = stage.state().await?;
        if stage.watches.is_empty() {
            seen.trial.because = "nothing is watched".to_owned();
        } else if changes(&before_all, &now, &stage.noise).is_empty() && !stage.noise.names().is_empty() {
            seen.trial.because.push_str(" (what changes by itself doesn't count)");
        }
        Ok(seen)
    }

    async fn measured(&self, stage: &mut Stage<'_>, is_fresh: bool) -> Result<First, AuditError> {
        let (fresh, call) = self.prepare(stage).await?;
        let before = stage.state().await?;
        let answer = stage.call(&call).await?;
        let after = stage.state().await?;
        let trial = judge::once(&before, &after, &answer, &stage.noise);
        let seen = changes(&before, &after, &stage.noise);
        let baseline = Baseline {
            effect: told(&seen),
            measure: measure(&seen, std::slice::from_ref(&fresh)),
            traces: occurrences(&after, &fresh.unique).saturating_sub(occurrences(&before, &fresh.unique)),
            is_fresh,
            word: fresh.unique,
        };
        Ok(First { baseline, trial })
    }

    /// One run of one experiment.
    pub(crate) async fn run(
        &self,
        experiment: Experiment,
        stage: &mut Stage<'_>,
        baseline: &Baseline,
    ) -> Result<Trial, AuditError> {
        match experiment {
            Experiment::Once => Ok(self.first(stage).await?.trial),
            Experiment::Twice | Experiment::LostAnswer | Experiment::Restart => {
                self.in_sequence(experiment, stage, baseline).await
            }
            Experiment::Concurrent => self.concurrent(stage, baseline).await,
            Experiment::DifferentAtOnce => self.different(stage, baseline).await,
            Experiment::RetriedId => self.retried(stage, baseline).await,
        }
    }

    /// Why an experiment can't be made, if it can't.
    pub(crate) async fn obstacle(
        &self,
        experiment: Experiment,
        stage: &mut Stage<'_>,
    ) -> Result<Option<&'static str>, AuditError> {
        let obstacle = match experiment {
            Experiment::Restart if !stage.can_restart() => Some("say how to restart the server, with --restart"),
            Experiment::DifferentAtOnce if !is_fresh_each_time(&self.arguments) => {
                Some("the arguments are the same each time: put {unique} into them")
            }
            Experiment::RetriedId if !stage.server().await?.takes_keys => {
                Some("the server announces no idempotency keys")
            }
            _ => None,
        };
        Ok(obstacle)
    }

    async fn in_sequence(
        &self,
        experiment: Experiment,
        stage: &mut Stage<'_>,
        baseline: &Baseline,
    ) -> Result<Trial, AuditError> {
        let (fresh, call) = self.prepare(stage).await?;
        let before = stage.state().await?;
        let first = match experiment {
            Experiment::LostAnswer => stage.call_in_vain(&call).await?,
            _ => stage.call(&call).await?,
        };
        let middle = stage.state().await?;
        let mut restarted = None;
        if experiment == Experiment::Restart {
            stage.restart().await?;
            restarted = Some(stage.state().await?);
        }
        let second = stage.call(&call).await?;
        let after = stage.state().await?;
        let seen = Sequence {
            states: [&before, &middle, &after],
            answers: [&first, &second],
            fresh: &fresh,
            is_first_lost: experiment == Experiment::LostAnswer,
            restarted: restarted.as_ref(),
        };
        let trial = judge::sequence(&seen, baseline, &stage.noise);
        // A server that dies of the call itself is not what this experiment is about, but has to be told.
        Ok(match (&first, experiment) {
            (Answer::None(_), Experiment::Twice | Experiment::Restart) if trial.verdict == Verdict::Safe => {
                Trial { verdict: Verdict::Unknown, because: "the first call is not answered".to_owned(), ..trial }
            }
            _ => trial,
        })
    }

    async fn concurrent(&self, stage: &mut Stage<'_>, baseline: &Baseline) -> Result<Trial, AuditError> {
        let (fresh, call) = self.prepare(stage).await?;
        let before = stage.state().await?;
        let answers = stage.at_once(&vec![call; stage.options.at_once]).await?;
        let after = stage.state().await?;
        Ok(judge::at_once([&before, &after], &answers, &fresh, baseline, &stage.noise))
    }

    async fn different(&self, stage: &mut Stage<'_>, baseline: &Baseline) -> Result<Trial, AuditError> {
        let (mut words, mut calls) = (Vec::new(), Vec::new());
        for _ in 0..stage.options.at_once {
            let (fresh, call) = self.prepare(stage).await?;
            words.push(fresh);
            calls.push(call);
        }
        let before = stage.state().await?;
        let answers = stage.at_once(&calls).await?;
        let after = stage.state().await?;
        let calls: Vec<_> = words.into_iter().zip(answers).collect();
        Ok(judge::side_by_side([&before, &after], &calls, baseline, &stage.noise))
    }

    /// One key and one id, on one connection; the second answer must be the first.
    async fn retried(&self, stage: &mut Stage<'_>, baseline: &Baseline) -> Result<Trial, AuditError> {
        // No other request of the connection has this id.
        const ID: u64 = 1 << 40;
        let (fresh, call) = self.prepare(stage).await?;
        let call = Call { key: Some(fresh.unique.clone()), id: Some(ID), ..call };
        let before = stage.state().await?;
        let first = stage.call(&call).await?;
        let middle = stage.state().await?;
        let second = stage.call(&call).await?;
        let after = stage.state().await?;
        let answers = [&first, &second];
        let states = [&before, &middle, &after];
        let seen = Sequence { states, answers, fresh: &fresh, is_first_lost: false, restarted: None };
        let trial = judge::sequence(&seen, baseline, &stage.noise);
        if trial.verdict == Verdict::Safe && first.text() != second.text() {
            let because = "the second answer under the same key is another one";
            return Ok(Trial { verdict: Verdict::WrongRecord, because: because.to_owned(), ..trial });
        }
        Ok(trial)
    }
}
