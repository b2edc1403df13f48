//! One transcript: `tests/clients/node/transcript.mjs` on the everything-server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use settled_tests::{Running, Stage, until};

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    Stdio,
    Http,
}

/// The SDKs, by their versions.
pub const SDKS: [&str; 3] = ["1.30.0", "1.32.2", "2.4.0"];

/// Who speaks with whom, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spoken {
    pub sdk: &'static str,
    pub revision: &'static str,
    pub front: Link,
    pub back: Link,
}

/// What the client got.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    /// The messages, each as its text, but for names that the server makes by chance.
    pub raws: Vec<String>,
    /// What each step came to, in the SDK's words.
    pub steps: Vec<Value>,
    /// The tools that there are.
    pub tools: Vec<String>,
    /// How often an event was sent a second time.
    pub again: u64,
}

impl Spoken {
    /// The same without a proxy: what the server says depends on its own transport.
    pub fn reference(&self) -> Spoken {
        Spoken { front: self.back, ..self.clone() }
    }

    /// Whether there is one order of all messages: one stream of them, from end to end.
    pub fn is_ordered(&self) -> bool {
        (self.front, self.back) == (Link::Stdio, Link::Stdio)
    }
}

#[derive(Deserialize)]
struct Line {
    raw: String,
}

#[derive(Deserialize)]
struct Last {
    steps: Vec<Value>,
    tools: Vec<String>,
    again: u64,
}

fn clients(name: &str) -> OsString {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/node").join(name).into()
}

fn everything(transport: &str) -> Vec<OsString> {
    let server = clients("node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    assert!(Path::new(&server).exists(), "{} is missing: run tests/clients/install", server.display());
    vec!["node".into(), "--import".into(), clients("still.mjs"), server, transport.into()]
}

/// Speaks it.
#[track_caller]
pub fn play(spoken: &Spoken, through_proxy: bool) -> Transcript {
    let mut stage = Stage::new();
    stage.set("CLIENT_SDK", spoken.sdk).set("CLIENT_REVISION", spoken.revision);
    let mut kept: Vec<Running> = Vec::new();
    let mut target: Vec<OsString> = Vec::new();
    match spoken.back {
        Link::Stdio => {
            target.push("--".into());
            target.extend(everything("stdio"));
        }
        Link::Http => {
            stage.set("PORT", 0);
            let mut server = stage.start(&everything("streamableHttp"));
            stage.unset("PORT");
            let url = server.next_line().unwrap_or_else(|| panic!("no URL: {}", server.stderr()));
            target.push(url.into());
            kept.push(server);
        }
    }
    if through_proxy {
        let mut proxy = stage.settled(&["mcp", "--ledger"]);
        proxy.push(stage.path("ledger").into());
        if spoken.front == Link::Http {
            proxy.extend(["--listen".into(), "127.0.0.1:0".into()]);
        }
        if spoken.back == Link::Http {
            proxy.push("--upstream".into());
        }
        proxy.extend(target);
        target = match spoken.front {
            Link::Stdio => [vec!["--".into()], proxy].concat(),
            Link::Http => {
                let mut proxy = stage.start(&proxy);
                let url = until("the proxy says its URL", || url_of(&proxy.stderr())).into();
                assert!(!proxy.has_ended(), "{}", proxy.stderr());
                kept.push(proxy);
                vec![url]
            }
        };
    }
    let ended = stage.run(&[vec!["node".into(), clients("transcript.mjs")], target].concat());
    assert!(ended.status.success(), "{spoken}: {ended:#?}");
    let (last, raws) = ended.lines.split_last().unwrap_or_else(|| panic!("{spoken}: nothing was printed: {ended:#?}"));
    let last: Last = serde_json::from_str(last).unwrap_or_else(|error| panic!("{spoken}: {error}: {ended:#?}"));
    let raws = raws.iter().map(|line| serde_json::from_str::<Line>(line).expect("a line of the transcript").raw);
    let mut names = Names { directory: stage.directory().display().to_string(), known: BTreeMap::new() };
    let raws = raws.map(|raw| names.settle(&raw)).collect();
    Transcript { raws, steps: last.steps, tools: last.tools, again: last.again }
}

fn url_of(stderr: &str) -> Option<String> {
    let url = stderr.get(stderr.find("http://127.0.0.1:")?..)?;
    url.get(..url.find(char::is_whitespace)?).map(str::to_owned)
}

/// Names that the server makes by chance (sessions, tasks, elicitations), and this test's own directory.
struct Names {
    directory: String,
    known: BTreeMap<String, usize>,
}

impl Names {
    /// Puts, for each name, its number in order of appearance.
    fn settle(&mut self, raw: &str) -> String {
        let raw = raw.replace(&self.directory, "DIRECTORY");
        let mut settled = String::with_capacity(raw.len());
        let mut word = String::new();
        for character in raw.chars().chain(['\n']) {
            if character.is_ascii_hexdigit() || character == '-' && !word.is_empty() {
                word.push(character);
                continue;
            }
            settled.push_str(&self.of(&word));
            word.clear();
            settled.push(character);
        }
        settled.pop();
        settled
    }

    fn of(&mut self, word: &str) -> String {
        let is_uuid = word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
        if !is_uuid && (word.len() != 32 || word.contains('-')) {
            return word.to_owned();
        }
        let next = self.known.len() + 1;
        format!("NAME-{}", self.known.entry(word.to_owned()).or_insert(next))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Link::Stdio { "stdio" } else { "HTTP" })
    }
}

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeScript SDK {}, {}, {}>{}", self.sdk, self.revision, self.front, self.back)
    }
}
