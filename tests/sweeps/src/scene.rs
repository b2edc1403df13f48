//! One run: a ledger, a tool, two seats for guards, and what callers were told.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use settled_ledger_tests::stage::truth::{Reader, Truth, compare_with, judge};
use settled_ledger_tests::stage::wire::{Answer, Request, Settings, Told};
use settled_protocol::Key;
use tempfile::TempDir;

use crate::places::Place;
use crate::seat::{Company, Fate, Seat};
use crate::tool::Happened;

/// The kind of tool whose calls have no effects.
const READ_ONLY: &str = "read-only";

/// What all guards write down.
const HISTORY: &str = "history.jsonl";

/// The programs: those in the directory that `SETTLED_SWEEP_BIN` names (they need the feature `fault-points`), else built here,
/// once.
fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let worker = BUILT.get_or_init(|| match std::env::var_os("SETTLED_SWEEP_BIN") {
        Some(directory) => PathBuf::from(directory).join("sweep_worker"),
        None => settled_tests::build("settled-sweeps", "sweep_worker").unwrap(),
    });
    worker.with_file_name(name)
}

/// The guard's program.
pub fn worker() -> PathBuf {
    program("sweep_worker")
}

/// How a scene differs from others.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// What befalls the processes in the first seat.
    pub first: Vec<Fate>,
    /// In the second seat.
    pub second: Vec<Fate>,
    /// What befalls the tool.
    pub tool: Vec<Fate>,
    /// Whether histories would be damaged by it, too: then none are looked at.
    pub unwritten: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// What was true of it.
    pub truth: Truth,
    /// The points at which processes killed themselves.
    pub kills: Vec<String>,
    /// How many effects there were.
    pub effects: usize,
    /// The faults of disks that took place.
    pub faults: usize,
    /// How often a guard died under a call, didn't start, or could send nothing.
    pub trouble: usize,
}

/// One run.
pub struct Scene {
    /// Where the tested guard sits.
    pub first: Seat,
    /// Where another one sits.
    pub second: Seat,
    company: Arc<Company>,
    tool: Tool,
    url: String,
    kind: &'static str,
    unwritten: bool,
    directory: TempDir,
}

impl Scene {
    /// A new one, for calls of a tool of this kind. No guard has been started yet.
    ///
    /// # Panics
    /// If it can't be set.
    pub fn set(place: &Place, kind: &'static str, plot: Plot) -> Scene {
        Scene::set_with(place, kind, plot, |_| {})
    }

    /// A new one in which guards work in another way.
    ///
    /// # Panics
    /// If it can't be set.
    pub fn set_with(place: &Place, kind: &'static str, plot: Plot, change: impl FnOnce(&mut Settings)) -> Scene {
        let directory = tempfile::Builder::new().prefix("settled-sweep-").tempdir().unwrap();
        let url = place.new_ledger(directory.path());
        let mut settings = settings(&url, directory.path());
        change(&mut settings);
        if plot.unwritten {
            settings.history = None;
        }
        let company: Arc<Company> = Arc::default();
        let seat =
            |fates| Seat::new(worker(), settings.clone(), directory.path().to_owned(), fates, Arc::clone(&company));
        let (first, second) = (seat(plot.first), seat(plot.second));
        let tool = Tool::start(directory.path(), plot.tool);
        Scene { first, second, company, tool, url, kind, unwritten: plot.unwritten, directory }
    }

    /// A call of its tool.
    pub fn request(&self, id: &str) -> Request {
        Request::to(self.kind, id)
    }

    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its ledger's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The points at which its processes killed themselves, in order.
    pub fn kills(&self) -> Vec<String> {
        let log = fs::read_to_string(self.directory().join("kills")).unwrap_or_default();
        log.lines().filter_map(|line| Some(line.split(' ').nth(1)?.to_owned())).collect()
    }

    /// Waits until nothing is under way, and compares what was told, what is recorded and what happened. Operations that are
    /// kept briefly are asked for once at most, and gone in the end.
    ///
    /// # Panics
    /// If it doesn't come to rest.
    pub fn end(self) -> Ended {
        let reader = Reader::open(&self.url);
        reader.quiet(Duration::from_secs(60));
        let mut told = self.company.told();
        let (mut happened, overlaps) = self.happened();
        if self.kind == READ_ONLY {
            // A read has no effect; what was told of it must be recorded all the same.
            let done = told.iter().filter(|(_, told)| told.answer == Answer::Done);
            happened = done.map(|(request, _)| (request.id.clone(), 1)).collect();
        }
        let mut effects: HashMap<Key, usize> = HashMap::new();
        let mut brief = HashMap::new();
        for (id, times) in happened {
            let of = if id.starts_with("brief") { &mut brief } else { &mut effects };
            of.insert(self.request(&id).key(), times);
        }
        let told_brief: Vec<_> = told.extract_if(.., |(request, _)| request.id.starts_with("brief")).collect();
        let total = effects.values().chain(brief.values()).sum();
        let mut truth = compare_with(&reader, &effects, &told);
        self.check_brief(&reader, &brief, &told_brief, &mut truth);
        truth.lies.extend(overlaps.into_iter().map(|both| format!("{both} overlap")));
        if !self.unwritten {
            let history = self.directory().join(HISTORY);
            let judged = judge(&reader, &history, effects.iter().chain(&brief), self.kind != READ_ONLY);
            truth.lies.extend(judged.err());
        }
        let story =
            |what: &String| format!("{what}\n  kills: {:?}\n{}{}", self.kills(), self.first.log(), self.second.log());
        for found in [&mut truth.losses, &mut truth.repeats, &mut truth.lies] {
            *found = found.iter().map(story).collect();
        }
        let faults = fs::read_to_string(self.directory().join("faults")).unwrap_or_default().lines().count();
        Ended { truth, kills: self.kills(), effects: total, faults, trouble: self.company.trouble() }
    }

    fn happened(&self) -> (HashMap<String, usize>, Vec<String>) {
        if self.kind != "transactional" {
            let happened = Happened::read(&self.tool.effects);
            return (happened.effects, happened.overlaps);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let rows = runtime.block_on(async {
            let url = self.url.split("&schema").next().unwrap_or_default();
            let (client, wire) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
            let driver = tokio::spawn(wire);
            let like = format!("%.{}", self.number());
            let rows = client.query("SELECT id FROM effects WHERE id LIKE $1", &[&like]).await.unwrap();
            driver.abort();
            rows
        });
        let mut effects = HashMap::new();
        for row in rows {
            *effects.entry(row.get::<_, String>(0)).or_default() += 1;
        }
        (effects, Vec::new())
    }

    /// Distinguishes this scene's operations from others' in a table that they share.
    pub fn number(&self) -> &str {
        self.url.split("scene_").nth(1).and_then(|rest| rest.split('&').next()).unwrap_or("0")
    }

    fn check_brief(&self, reader: &Reader, effects: &HashMap<Key, usize>, told: &[(Request, Told)], truth: &mut Truth) {
        for (key, times) in effects {
            if *times > 1 {
                truth.repeats.push(format!("{key}: {times} effects"));
            }
        }
        for (request, told) in told {
            let key = request.key();
            if told.answer == Answer::Done && !effects.contains_key(&key) {
                truth.losses.push(format!("{key}: told {told:?}, and it did not happen"));
            }
            if told.answer == Answer::Failed && effects.contains_key(&key) {
                truth.lies.push(format!("{key}: told {told:?}, and it happened"));
            }
            // With a person it stays.
            let stays = |reader: &Reader| reader.get(&key).filter(|entry| entry.record.is_settled());
            let until = Instant::now() + Duration::from_secs(30);
            while let Some(entry) = stays(reader) {
                if Instant::now() > until {
                    truth.lies.push(format!("{key} is kept for ever: {:?}", entry.record));
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Short times: what is waited for in a scene is near.
fn settings(url: &str, directory: &Path) -> Settings {
    Settings {
        lease: 10_000,
        attempt: 5_000,
        settle: 3_000,
        maintain: 40,
        settling: 30,
        limit: 600_000,
        margin: 10_000,
        backoff: 5,
        checks: 8,
        brief: 30,
        history: Some(directory.join(HISTORY)),
        ..Settings::new(url.to_owned(), directory.join("tool"))
    }
}

/// The tool's process, and its successors.
struct Tool {
    effects: PathBuf,
    over: Arc<AtomicBool>,
    child: Arc<Mutex<Option<Child>>>,
    keeper: Option<JoinHandle<()>>,
}

impl Tool {
    fn start(directory: &Path, fates: Vec<Fate>) -> Tool {
        let (socket, effects) = (directory.join("tool"), directory.join("effects"));
        let (over, child) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None::<Child>)));
        let kills = directory.join("kills");
        let keeper = thread::spawn({
            let (over, child, effects, socket) = (over.clone(), child.clone(), effects.clone(), socket.clone());
            move || {
                let mut fates = fates.into_iter();
                loop {
                    {
                        let mut child = child.lock().unwrap();
                        let dead = child.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
                        if over.load(Ordering::SeqCst) {
                            return;
                        }
                        if dead {
                            let mut command = fates.next().unwrap_or_default().command(&program("sweep_tool"));
                            command.arg(&socket).arg(&effects).env("SETTLED_KILL_LOG", &kills).stdin(Stdio::null());
                            *child = Some(command.spawn().unwrap());
                        }
                    }
                    thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let until = Instant::now() + Duration::from_secs(30);
        while !socket.exists() {
            assert!(Instant::now() < until, "the tool doesn't start");
            thread::sleep(Duration::from_millis(1));
        }
        Tool { effects, over, child, keeper: Some(keeper) }
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        if let Some(mut child) = self.child.lock().unwrap().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
