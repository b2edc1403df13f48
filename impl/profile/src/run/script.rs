//! What is done in each cell, in order.

use std::time::Duration;

use tokio::time::Instant;

use super::RunError;
use super::flow::Flow;
use super::strike::Aim;
use crate::cell::{Cell, Workload};
use crate::outcome::Bite;
use crate::profile::Who;
use crate::tool::Point;

/// How long a resumed process may wait for one that is stopped.
const STOPPED: Duration = Duration::from_secs(15);

/// How far the wall clock is ahead for a resumed process: longer than leases, time-outs and caches last.
const CLOCK_JUMP: Duration = Duration::from_secs(2 * 24 * 60 * 60);

/// How many answers are lost at most: a caller that tries again without end must come to one.
const ANSWERS_LOST: u32 = 5;

/// How long processes that are started at once may wait for each other at the tool. One that is kept out by a lock never comes.
const TOGETHER: Duration = Duration::from_secs(10);

/// Plays a cell; the processes whose ends say how the run has ended.
pub async fn play(flow: &mut Flow, cell: Cell) -> Result<Vec<usize>, RunError> {
    match cell.workload() {
        Workload::Steps => steps(flow, cell).await,
        Workload::Approval => approval(flow, cell).await,
        Workload::Parallel => {
            let Some(first) = until_approval(flow).await? else { return Ok(vec![0]) };
            flow.bite = Some(Bite::Struck);
            let _ = first;
            Ok(vec![resume(flow, &[("PROFILE_ANSWER", "approve")]).await?])
        }
    }
}

async fn steps(flow: &mut Flow, cell: Cell) -> Result<Vec<usize>, RunError> {
    flow.aim = match cell {
        Cell::KillBeforeEffect => Aim::Kill("b", Point::Called),
        Cell::KillAfterEffect | Cell::ClockJumped | Cell::ResumedWithInput => Aim::Kill("b", Point::Effected),
        Cell::KillAfterRecord | Cell::ResumedTwice | Cell::ResumedAtOnce => Aim::Kill("c", Point::Called),
        Cell::KillAtRandom => Aim::KillAfter(flow.moments.after.unwrap_or_default()),
        Cell::AnswerLost => Aim::CutAnswer("b", 1),
        Cell::AnswersLost => Aim::CutAnswer("b", ANSWERS_LOST),
        Cell::LateEffect => Aim::Late("b"),
        Cell::Cancelled => Aim::Cancel("b"),
        Cell::ToolRestarted => Aim::RestartTool("b"),
        Cell::DeliveredTwice => Aim::Twice("b"),
        Cell::StoppedAndWoken => Aim::Stop("b"),
        Cell::KillAfterAnswer | Cell::DiskFull | Cell::DiskReadOnly => Aim::Arm("b"),
        _ => Aim::Nothing,
    };
    let first = start(flow)?;
    if cell == Cell::StoppedAndWoken {
        return stopped(flow, first).await;
    }
    flow.until_ended(&[first]).await?;
    if cell == Cell::NoFault || (flow.bite.is_none() && !flow.is_holding()) || missed(flow) {
        return Ok(vec![first]);
    }
    flow.aim = Aim::Nothing;
    match cell {
        Cell::ClockJumped => {
            let second = begin(flow, Some(CLOCK_JUMP), "continue", &[])?;
            flow.until_ended(&[second]).await?;
            Ok(vec![second])
        }
        Cell::ResumedWithInput => {
            let second = begin(flow, None, "input", &[])?;
            flow.until_ended(&[second]).await?;
            Ok(vec![second])
        }
        Cell::ResumedTwice => {
            let second = resume(flow, &[]).await?;
            Ok(vec![second, resume(flow, &[]).await?])
        }
        Cell::ResumedAtOnce => at_once(flow, &[]).await,
        // Whatever did not kill it can have ended well; then nobody would resume it.
        Cell::AnswerLost
        | Cell::AnswersLost
        | Cell::LateEffect
        | Cell::ToolRestarted
        | Cell::DeliveredTwice
        | Cell::DiskFull
        | Cell::DiskReadOnly
            if flow.end_of(first).is_some_and(|end| end.is_over()) =>
        {
            Ok(vec![first])
        }
        _ => Ok(vec![resume(flow, &[]).await?]),
    }
}

fn missed(flow: &Flow) -> bool {
    matches!(flow.bite, Some(Bite::Missed(_)))
}

async fn stopped(flow: &mut Flow, first: usize) -> Result<Vec<usize>, RunError> {
    flow.until(|flow| flow.bite.is_some() || flow.end_of(first).is_some()).await?;
    if flow.bite != Some(Bite::Struck) {
        flow.wake(first);
        flow.until_ended(&[first]).await?;
        return Ok(vec![first]);
    }
    let second = begin(flow, None, "continue", &[])?;
    // Its time begins when it has come so far that it calls the tool, unless it waits for the stopped one before that.
    let calls = flow.calls;
    let begun = Instant::now() + flow.stage.setting.deadline / 2;
    flow.ring_at(begun);
    flow.until(|flow| flow.end_of(second).is_some() || flow.calls > calls || Instant::now() >= begun).await?;
    let patience = Instant::now() + STOPPED;
    flow.ring_at(patience);
    flow.until(|flow| flow.end_of(second).is_some() || Instant::now() >= patience).await?;
    flow.wake(first);
    flow.until_ended(&[first, second]).await?;
    Ok(vec![first, second])
}

async fn approval(flow: &mut Flow, cell: Cell) -> Result<Vec<usize>, RunError> {
    const APPROVE: &[(&str, &str)] = &[("PROFILE_ANSWER", "approve")];
    const DENY: &[(&str, &str)] = &[("PROFILE_ANSWER", "deny")];
    let Some(_) = until_approval(flow).await? else { return Ok(vec![0]) };
    match cell {
        Cell::ApprovedThenKilled => {
            flow.aim = Aim::Kill("b", Point::Effected);
            let second = resume(flow, APPROVE).await?;
            if flow.bite.is_none() {
                return Ok(vec![second]);
            }
            Ok(vec![resume(flow, APPROVE).await?])
        }
        Cell::ApprovedAtOnce => at_once(flow, APPROVE).await,
        Cell::DeniedThenApproved => {
            let denied = resume(flow, DENY).await?;
            flow.bite = Some(Bite::Struck);
            Ok(vec![denied, resume(flow, APPROVE).await?])
        }
        _ => {
            let first = resume(flow, APPROVE).await?;
            flow.bite = Some(Bite::Struck);
            Ok(vec![first, resume(flow, APPROVE).await?])
        }
    }
}

/// Starts the run, and has it come to where it waits for an approval.
async fn until_approval(flow: &mut Flow) -> Result<Option<usize>, RunError> {
    let first = start(flow)?;
    flow.until_ended(&[first]).await?;
    let end = flow.end_of(first);
    if end.is_some_and(|end| end.waits()) {
        return Ok(Some(first));
    }
    let how = end.map_or_else(String::new, |end| end.to_string());
    let words = flow.words(first, 1).pop().map_or_else(String::new, |words| format!(": {words}"));
    flow.bite = Some(Bite::Missed(format!("it did not wait for an approval ({how}{words})")));
    Ok(None)
}

async fn at_once(flow: &mut Flow, more: &[(&str, &str)]) -> Result<Vec<usize>, RunError> {
    let mut processes = Vec::new();
    for _ in 0..3 {
        processes.push(begin(flow, None, "continue", more)?);
    }
    flow.bite.get_or_insert(Bite::Struck);
    flow.gather(processes.first().copied().unwrap_or_default(), TOGETHER);
    flow.until_ended(&processes).await?;
    Ok(processes)
}

fn start(flow: &mut Flow) -> Result<usize, RunError> {
    flow.note(Who::Harness, format!("started ({})", flow.stage.workload.name()));
    let words = flow.stage.setting.start.clone();
    flow.start(&words, None, &[])
}

async fn resume(flow: &mut Flow, more: &[(&str, &str)]) -> Result<usize, RunError> {
    let number = begin(flow, None, "continue", more)?;
    flow.until_ended(&[number]).await?;
    Ok(number)
}

fn begin(flow: &mut Flow, ahead: Option<Duration>, form: &str, more: &[(&str, &str)]) -> Result<usize, RunError> {
    let mut said = form.to_owned();
    if let Some((_, answer)) = more.iter().find(|(name, _)| *name == "PROFILE_ANSWER") {
        said = format!("{form}, {answer}");
    }
    if ahead.is_some() {
        said = format!("{said}, in two days");
    }
    flow.note(Who::Harness, format!("resumed ({said})"));
    let words = flow.stage.setting.resume.clone();
    let mut environment = vec![("PROFILE_FORM", form)];
    environment.extend(more);
    flow.start(&words, ahead, &environment)
}
