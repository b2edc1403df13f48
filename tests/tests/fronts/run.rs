//! Playing one cell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use settled_tests::{Attempt, Breaker, Client, Cut, Run, Stage, Target, until};

use crate::cell::{Cell, Direct, Fault, Link};
use crate::scene::Scene;

/// What was seen.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How many effects there were.
    pub charges: usize,
    /// Whether what was to go wrong went wrong.
    pub struck: bool,
    /// What the client was told last.
    pub told: String,
    /// An answer that is not true.
    pub lie: Option<String>,
    /// All that is known, for the message of a failed test.
    pub story: String,
}

/// Plays it without a proxy.
pub fn direct(cell: &Direct) -> Seen {
    play(cell.client, cell.revision, cell.fault, cell.link, None)
}

/// Plays it with the proxy.
pub fn guarded(cell: &Cell) -> Seen {
    play(cell.client, cell.revision, cell.fault, cell.way.front, Some(cell))
}

fn play(client: Client, revision: &'static str, fault: Fault, link: Link, guarded: Option<&Cell>) -> Seen {
    let stage = prepared(client, revision, fault);
    let (front, back, over) = (Breaker::new(), Breaker::new(), AtomicBool::new(false));
    let scene = Scene { stage: &stage, front: &front, back: &back, over: &over };
    thread::scope(|scope| {
        // Else a panic below would wait for processes that are kept running.
        let _end = OnDrop(|| over.store(true, Ordering::SeqCst));
        let target = match guarded {
            Some(cell) => scene.guarded(scope, cell),
            None => scene.direct(scope, &Direct { client, link, revision, fault }),
        };
        let (run, struck) = strike(&scene, client, fault, link, &target);
        let struck = struck && went_wrong(&stage, client, fault, &run, guarded.is_some());
        let effects = stage.effects();
        let lie =
            run.attempts.iter().find(|attempt| attempt.is_success() && !effects.contains(&attempt.text().to_owned()));
        let lie = lie.map(|attempt| format!("an answer without its effect: {attempt:?}"));
        let story = format!("{run:#?}\n{}", stage.story());
        Seen { charges: effects.len(), struck, told: told(fault, &run), lie, story }
    })
}

struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn prepared(client: Client, revision: &str, fault: Fault) -> Stage {
    let mut stage = Stage::new();
    stage.set("CLIENT_REVISION", revision).set("CLIENT_PATIENCE_MS", 40_000);
    // How long the server waits after the first effect, and how long the client waits for it.
    let waits = match (fault, client) {
        // Its patience covers the start of the server, too.
        (Fault::Timeout, Client::Agents) => Some((13_000, 10_000)),
        (Fault::ClientKilled, _) => Some((2_500, 40_000)),
        (Fault::Timeout | Fault::Cancelled, _) => Some((2_500, 1_000)),
        (Fault::ProxyKilled, _) => Some((2_500, 8_000)),
        // An SDK can wait in vain until its own timeout when the stream has gone.
        (Fault::ClientReset | Fault::ClientCut | Fault::ServerReset | Fault::ServerCut, _) => Some((2_500, 4_000)),
        (Fault::ServerKilled, _) => Some((0, 4_000)),
        _ => None,
    };
    if let Some((server, client)) = waits {
        stage.set("SERVER_DELAY_MS", server).set("SERVER_DELAY_FIRST", 1).set("CLIENT_TIMEOUT_MS", client);
    }
    if fault == Fault::ServerKilled {
        stage.set("SERVER_DIE_AFTER_EFFECT", 1);
    }
    stage
}

fn scenario(client: Client, fault: Fault, link: Link) -> &'static str {
    match fault {
        Fault::TwoWishes => "two-orders",
        Fault::DoubleClick => "twice-at-once",
        Fault::Batch => "batch",
        Fault::Timeout if client == Client::Agents => "once",
        Fault::Timeout | Fault::Cancelled => "timeout-retry",
        Fault::AnswerLost | Fault::ClientKilled => "once",
        Fault::ServerKilled | Fault::ProxyKilled if link == Link::Stdio => "crash-retry",
        _ => "reconnect-retry",
    }
}

/// Runs the client and does what is to be done to it. Whether it was done.
fn strike(scene: &Scene<'_>, client: Client, fault: Fault, link: Link, target: &Target) -> (Run, bool) {
    let stage = scene.stage;
    let mut running = stage.start_client_on(client, scenario(client, fault, link), target);
    running.close_input();
    let mut struck = true;
    match fault {
        Fault::ClientKilled => {
            stage.wait_for_effects(1);
            let killed = running.kill().is_some();
            return (stage.client_on(client, "once", target), killed);
        }
        Fault::ClientReset | Fault::ClientCut | Fault::ServerReset | Fault::ServerCut => {
            stage.wait_for_effects(1);
            let at_server = matches!(fault, Fault::ServerReset | Fault::ServerCut);
            let breaker = if at_server { scene.back } else { scene.front };
            let how = if matches!(fault, Fault::ClientReset | Fault::ServerReset) { Cut::Reset } else { Cut::End };
            struck = breaker.cut(how) > 0;
        }
        Fault::ProxyKilled => {
            stage.wait_for_effects(1);
            let proxy = until("the proxy runs", || stage.proxies().into_iter().next());
            struck = stage.kill(&proxy, "mcp");
        }
        _ => {}
    }
    (Run::of(&running.wait()), struck)
}

/// Whether it shows in what the client saw.
fn went_wrong(stage: &Stage, client: Client, fault: Fault, run: &Run, guarded: bool) -> bool {
    let replayed = run.attempts.iter().filter(|attempt| attempt.mark()["replayed"] == true).count();
    match fault {
        Fault::TwoWishes => run.attempts.len() == 2 && run.attempts.iter().all(Attempt::is_success),
        Fault::DoubleClick | Fault::Batch => run.attempts.len() == 2 && replayed == usize::from(guarded),
        // Its own repetition does not show, but as the replay that it gets.
        Fault::Timeout if client == Client::Agents => replayed == usize::from(guarded),
        Fault::Timeout | Fault::Cancelled => {
            run.attempts.len() == 2 && run.attempts.iter().take(1).all(|first| first.error.is_some())
        }
        Fault::AnswerLost => run.node_runs == 3,
        Fault::ServerKilled => !stage.kills().is_empty(),
        Fault::ClientKilled => !run.attempts.is_empty(),
        Fault::ProxyKilled => run.attempts.iter().take(1).all(|first| first.error.is_some()),
        Fault::ClientReset | Fault::ClientCut | Fault::ServerReset | Fault::ServerCut => true,
    }
}

/// What the client was told last, or of each of two calls at once.
fn told(fault: Fault, run: &Run) -> String {
    if run.node_runs > 0 {
        return run.returned.last().and_then(|last| last["status"].as_str()).unwrap_or("nothing").to_owned();
    }
    let mut words: Vec<String> = run.attempts.iter().map(word).collect();
    if matches!(fault, Fault::DoubleClick | Fault::Batch) {
        words.sort();
        return words.join("; ");
    }
    words.pop().unwrap_or_else(|| "nothing".to_owned())
}

fn word(attempt: &Attempt) -> String {
    if attempt.error.is_some() {
        return attempt.code().map_or_else(|| "an error".to_owned(), |code| format!("error {code}"));
    }
    match attempt.mark()["status"].as_str() {
        Some("unknown") => "unknown".to_owned(),
        _ if attempt.is_error() => "an error of the tool".to_owned(),
        _ if attempt.mark()["replayed"] == true => "replayed".to_owned(),
        _ => "done".to_owned(),
    }
}
