//! What the server says of its tools. The proxy asks for itself, because clients don't list tools before they call them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};

use crate::behind::server::ServerHandle;
use crate::book::OwnReply;
use crate::config::{Ask, Config, Kind};
use crate::guarded::guard::{Annotations, is_new, undeclared};
use crate::guarded::observe::may_be_asked;
use crate::listed::definition;
use crate::listed::unreviewed::Unreviewed;
use crate::messages::splice::{self, quoted};
use crate::told::status;

/// How long a call waits for the list.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait before a list is read again that changed while it was read.
const PAUSE: Duration = Duration::from_millis(200);

/// The longest wait before a server is asked again that can't be reached.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// No server has more pages; one that never stops naming another is not followed for ever.
const PAGES: usize = 1000;

pub(crate) type List = Arc<HashMap<String, Annotations>>;

/// The list of tools, kept fresh by [`Tools::keep`].
pub(crate) struct Tools {
    /// `None` while it is not known, or no longer.
    list: watch::Sender<Option<List>>,
    wanted: Notify,
    /// How often it was wanted.
    asked: AtomicU64,
    pending: Mutex<Pending>,
    /// `_meta` for the requests, of a client that never opens a session.
    meta: Mutex<Option<String>>,
}

/// The list that is waited for.
struct Pending {
    /// Since when calls may have been waiting for it.
    since: Instant,
    /// It took too long: until a list is known to be fresh again, the last one read does, and no call waits.
    given_up: bool,
    /// The last list read, fresh or not.
    last: List,
}

impl Tools {
    pub(crate) fn new() -> Tools {
        Tools {
            list: watch::Sender::new(None),
            wanted: Notify::new(),
            asked: AtomicU64::new(0),
            pending: Mutex::new(Pending { since: Instant::now(), given_up: false, last: List::default() }),
            meta: Mutex::default(),
        }
    }

    /// The session is open: ask for the list.
    pub(crate) fn session_opened(&self) {
        self.refresh();
    }

    /// A call came; if nobody has asked yet, ask the way this call does.
    pub(crate) fn call_came(&self, params: &str) {
        if self.asked.load(Ordering::Acquire) > 0 {
            return;
        }
        if let Some(meta) = splice::get(params, "_meta") {
            let meta = without_progress(meta);
            *self.meta.lock().unwrap_or_else(PoisonError::into_inner) = meta;
        }
        self.refresh();
    }

    /// The list that was read may be wrong now.
    pub(crate) fn list_changed(&self) {
        self.refresh();
    }

    /// A new server process may have other tools.
    pub(crate) fn server_restarted(&self) {
        if self.asked.load(Ordering::Acquire) > 0 {
            self.refresh();
        }
    }

    fn refresh(&self) {
        self.list.send_modify(|list| {
            let first = self.asked.fetch_add(1, Ordering::AcqRel) == 0;
            let mut pending = self.pending();
            if first || list.is_some() {
                pending.since = Instant::now();
            }
            if !pending.given_up {
                *list = None;
            }
        });
        self.wanted.notify_one();
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of a tool right now; outer `None`: the list is not there.
    pub(crate) fn known(&self, tool: &str) -> Option<Option<Annotations>> {
        self.list.borrow().as_ref().map(|list| list.get(tool).copied())
    }

    /// Whether clients check what this tool answers, and refuse what does not fit.
    pub(crate) fn has_output_schema(&self, tool: &str) -> bool {
        self.known(tool).flatten().is_some_and(|listed| listed.has_output_schema)
    }

    /// Resolves when the list is there. One that takes too long, or changes all the time, is done without: only the calls
    /// that came meanwhile have waited for it.
    pub(crate) async fn listed(&self) {
        let since = self.pending().since;
        let mut list = self.list.subscribe();
        if timeout_at(since + PATIENCE, list.wait_for(Option::is_some)).await.is_ok() {
            return;
        }
        self.list.send_if_modified(|list| {
            let mut pending = self.pending();
            // It may have come, and be wanted again, since.
            let late = list.is_none() && pending.since == since;
            if late {
                tracing::warn!(
                    "the server does not come to list its tools: until it does, the last list counts, if any"
                );
                pending.given_up = true;
                *list = Some(pending.last.clone());
            }
            late
        });
    }

    /// A list has been read that was asked for when it was wanted for the `asked`th time. Whether it is fresh: one that was
    /// wanted again while it was read may be an old one.
    fn read(&self, list: List, asked: u64) -> bool {
        let mut fresh = false;
        self.list.send_if_modified(|known| {
            fresh = self.asked.load(Ordering::Acquire) == asked;
            let mut pending = self.pending();
            pending.last = list.clone();
            let counts = fresh || pending.given_up;
            if fresh {
                pending.given_up = false;
            }
            if counts {
                *known = Some(list);
            }
            counts
        });
        fresh
    }

    /// Reads the list whenever it is wanted. Never returns.
    pub(crate) async fn keep(self: Arc<Self>, server: ServerHandle, config: Arc<Config>) {
        let mut named = HashSet::new();
        let mut before = List::default();
        let mut unasked = HashSet::new();
        let mut unreviewed = Unreviewed::default();
        let mut failed = 0;
        loop {
            self.wanted.notified().await;
            let asked = self.asked.load(Ordering::Acquire);
            let meta = self.meta.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let read = read(&server, meta.as_deref()).await;
            let out_of_reach = matches!(read, Read::Nothing);
            failed = if matches!(read, Read::List(_)) { 0 } else { failed + 1 };
            let list = match read {
                Read::List(list) => Arc::new(list),
                // The next process is asked, if there is one; a server behind HTTP, after a while.
                Read::Lost => {
                    sleep(longer_and_longer(failed)).await;
                    self.wanted.notify_one();
                    continue;
                }
                Read::Nothing => before.clone(),
            };
            before = list.clone();
            let mut misnamed: Vec<&str> =
                config.tools.keys().filter(|name| !list.contains_key(*name)).map(String::as_str).collect();
            misnamed.retain(|name| named.insert((*name).to_owned()));
            if !misnamed.is_empty() {
                tracing::warn!(
                    tools = misnamed.join(", "),
                    "settled.toml declares tools that the server does not have: is a name misspelt?"
                );
            }
            if config.status_tool && list.contains_key(status::TOOL) && named.insert(status::TOOL.to_owned()) {
                tracing::warn!("the server has a tool `{}` of its own: `status_tool` offers none", status::TOOL);
            }
            warn_of_observers(&config, &list, &mut unasked);
            unreviewed.look(&config, &list);
            let mut new: Vec<&str> = list
                .iter()
                .filter(|(name, annotations)| {
                    undeclared(&config, name, annotations) && !is_new(&config, name) && !named.contains(*name)
                })
                .map(|(name, _)| name.as_str())
                .collect();
            if !new.is_empty() {
                new.sort_unstable();
                tracing::warn!(
                    tools = new.join(", "),
                    "undeclared tools: neither settled.toml nor their annotations say whether they may be repeated, so \
                     each call is sent once, and counts as a new one after its answer has arrived",
                );
                named.extend(new.into_iter().map(str::to_owned));
            }
            if !self.read(list, asked) {
                sleep(PAUSE).await;
            }
            if out_of_reach {
                tokio::select! {
                    () = sleep(longer_and_longer(failed)) => {}
                    () = self.wanted.notified() => {}
                }
                self.wanted.notify_one();
            }
        }
    }
}

/// How long to wait before a server is asked again that did not answer: the first time not at all.
fn longer_and_longer(failed: u32) -> Duration {
    match failed.checked_sub(2) {
        Some(times) => PAUSE.saturating_mul(1 << times.min(16)).min(LONGEST_PAUSE),
        None => Duration::ZERO,
    }
}

/// Names observers that can't be asked, once each.
fn warn_of_observers(config: &Config, list: &List, named: &mut HashSet<String>) {
    for (tool, declared) in &config.tools {
        let Kind::Observable { observe, .. } = &declared.kind else { continue };
        let Ask::Tool { name, allow_unannotated, .. } = &observe.ask else { continue };
        if let Err(reason) = may_be_asked(name, list.get(name).copied(), *allow_unannotated)
            && named.insert(tool.clone())
        {
            tracing::warn!(
                tool,
                observer = name,
                reason,
                "an observer can't be asked: unknown calls of its tool stay unknown"
            );
        }
    }
}

enum Read {
    List(HashMap<String, Annotations>),
    Nothing,
    Lost,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default, borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default, rename = "nextCursor")]
    next: Option<String>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    annotations: Option<Annotations>,
}

async fn read(server: &ServerHandle, meta: Option<&str>) -> Read {
    let mut list = HashMap::new();
    let mut cursor: Option<String> = None;
    for _ in 0..PAGES {
        let members: Vec<String> = [
            cursor.as_deref().map(|cursor| format!("\"cursor\":{}", quoted(cursor))),
            meta.map(|meta| format!("\"_meta\":{meta}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let result = match server.request("tools/list", &format!("{{{}}}", members.join(","))).await {
            OwnReply::Result(result) => result,
            OwnReply::Lost => return Read::Lost,
            OwnReply::Error(error) => {
                tracing::warn!(%error, "the server does not list its tools: they count as not annotated");
                return Read::List(list);
            }
            OwnReply::NotSent(_) | OwnReply::Refused(_) => return Read::Nothing,
        };
        let Ok(page) = serde_json::from_str::<Page<'_>>(&result) else {
            tracing::warn!("the server's list of tools can't be read: they count as not annotated");
            return Read::List(list);
        };
        // A tool that can't be read counts as not annotated.
        for text in page.tools {
            if let Some((name, annotations)) = listed(text.get()) {
                let several = list.get(&name).map(|other: &Annotations| other.of_both(annotations));
                list.insert(name, several.unwrap_or(annotations));
            }
        }
        match page.next {
            Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
            _ => return Read::List(list),
        }
    }
    Read::List(list)
}

/// A tool as it is listed: its name, and what is claimed of it. `None`: it can't be read.
pub(crate) fn listed(text: &str) -> Option<(String, Annotations)> {
    let tool: Tool = serde_json::from_str(text).ok()?;
    let annotations = Annotations {
        definition: Some(definition::digest(text)),
        has_output_schema: splice::get(text, "outputSchema").is_some_and(|schema| schema != "null"),
        ..tool.annotations.unwrap_or_default()
    };
    Some((tool.name, annotations))
}

/// A call's `_meta` for another request: without the token that names the call's progress.
fn without_progress(meta: &str) -> Option<String> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(meta).ok()?;
    let kept: serde_json::Map<_, _> = members.into_iter().filter(|(name, _)| name != "progressToken").collect();
    serde_json::to_string(&kept).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tool: &str) -> List {
        Arc::new(HashMap::from([(tool.to_owned(), Annotations::default())]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_never_settles_holds_calls_up_once_and_not_for_long() {
        let tools = Arc::new(Tools::new());
        tools.session_opened();
        let begun = Instant::now();
        let storm = tokio::spawn({
            let tools = tools.clone();
            async move {
                loop {
                    sleep(Duration::from_secs(1)).await;
                    let asked = tools.asked.load(Ordering::Acquire);
                    tools.list_changed();
                    assert!(!tools.read(list("old"), asked), "it was wanted again meanwhile");
                }
            }
        });
        tools.listed().await;
        assert!(begun.elapsed() <= PATIENCE + Duration::from_secs(1), "{:?}", begun.elapsed());
        assert!(tools.known("old").unwrap().is_some(), "the last list read counts");
        for _ in 0..5 {
            sleep(Duration::from_millis(700)).await;
            let begun = Instant::now();
            tools.listed().await;
            assert_eq!(begun.elapsed(), Duration::ZERO, "nobody waits a second time");
        }
        storm.abort();
        // Once a fresh one comes, all is as it was.
        let asked = tools.asked.load(Ordering::Acquire);
        assert!(tools.read(list("new"), asked));
        assert!(tools.known("new").unwrap().is_some() && tools.known("old").unwrap().is_none());
        tools.list_changed();
        assert!(tools.known("new").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_never_comes_is_waited_for_once() {
        let tools = Tools::new();
        tools.session_opened();
        let begun = Instant::now();
        tools.listed().await;
        assert_eq!(begun.elapsed(), PATIENCE);
        tools.list_changed();
        tools.listed().await;
        assert_eq!(begun.elapsed(), PATIENCE);
    }
}
