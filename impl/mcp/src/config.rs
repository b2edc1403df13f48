//! `settled.toml`: what the user declares about a server's tools.
//!
//! Everything is checked when the file is read: what it means is never guessed, and what contradicts itself is refused
//! with the place and the reason.
//!
//! # The whole file
//!
//! | field | says |
//! | --- | --- |
//! | `scope` | the scope of all keys; without it, one for the server's command and directory |
//! | `ledger` | the ledger: a directory, or a URL |
//! | `lease = "15s"` | how long this process counts as the owner of what it has sent without renewing that |
//! | `in_progress = "wait"` | a call that is under way already is waited for; `"answer"`: for `patience` only, then the caller is told that it is in progress |
//! | `metrics = "127.0.0.1:9464"` | where to serve what is counted, for Prometheus |
//! | `status_tool = true` | offers the client a tool `settled_status`, which tells how an operation stands |
//! | `tasks = true` | a client of revision 2026-07-28 that can deal with tasks gets one for a call that is unknown or takes long |
//! | `[defaults]` | `window`, `timeout`, `repeat`, `slow_answer`, `retry_doubt` for tools that don't say otherwise; `client_timeout`: shortly before the client gives up it is told that the call is in progress; `keep_alive = true`: not if it asks for progress, of which it is told instead |
//! | `[messages]` | `language = "en"` or `"ja"`; `mark_replays = true`: recorded answers are marked in words, too; `[messages.texts]`: words of your own, with `{tool}`, `{key}`, `{address}` and `{command}` |
//! | `[retries]` | `budget = "10%"` of the requests may be retries, of all processes on the ledger together, and `burst = 100` at once |
//! | `mode = "observe"` | calls pass unguarded, and what the guard would have done is counted: it protects nothing. Default: `"enforce"` |
//! | `new_tools = "guard"` | tools that are not declared are guarded, whatever is claimed of them. Default: `"annotations"` decide |
//! | `[encryption]` | `key_file`, `old_key_files`, `digest_key_file`: the keys for `encrypt` and `redact` |
//! | `[limits]` | `frame_bytes = "64MiB"`, `calls = 4096` under way, `calls_per_session`, `keys_per_scope` |
//! | `[http]` | `listen`, `allowed_origins`, `allowed_hosts`, `principal` (`"authorization"`, `"none"` or `{ header = "X-User" }`), `pass_headers`, `reauthorise`, `sessions`, `sessions_per_principal`, `idle_timeout` |
//! | `[servers.NAME]` | one of many servers, as follows; then there are no `[tools]` and no `scope` outside of them |
//! | `[tools.NAME]` | a tool, as follows |
//!
//! # `[servers.NAME]`
//!
//! | field | says |
//! | --- | --- |
//! | `command`, `env` | its program and arguments, and variables that are added to its environment; or |
//! | `url`, `headers`, `ca`, `http_not_run` | its address; headers of every request (a word `env:NAME` is that variable); a file of certificates to trust; the statuses after which nothing was run |
//! | `scope` | the scope of its keys; without it, one for its name and its command or address |
//! | `mode`, `new_tools` | as above, for this server |
//! | `[servers.NAME.defaults]` | as `[defaults]`, for this server |
//! | `[servers.NAME.tools.TOOL]` | a tool of it |
//!
//! # `[tools.NAME]`
//!
//! | field | says |
//! | --- | --- |
//! | `guard` | `false`: passed on as it is |
//! | `mode` | as above, for this tool |
//! | `seen` | the digest of its definition, from `settled mcp --describe`; if the server defines it otherwise, it is guarded as opaque |
//! | `encrypt` | arguments (`card.number` or `/card/number`; `*`: all) that are encrypted where they are kept, and with them the answers |
//! | `redact` | arguments that are not kept at all: opaque tools only, whose calls no other process sends |
//! | `kind` | `opaque`, `observable`, `sealable`, `deduplicates`; `idempotent` and `read-only` are passed on as they are |
//! | `key` | the arguments that name the operation: a list, or a template such as `"{customer_id}:{date}"` |
//! | `ephemeral` | arguments (by name or JSON pointer) that have no part in it: timestamps, tokens |
//! | `repeat` | `replay` or `new-after-delivery` |
//! | `timeout` | how long one attempt's answer is waited for |
//! | `call_timeout` | how long a call waits at all before it is told how things stand |
//! | `attempts`, `total` | at most so many attempts, and none later than this after the call |
//! | `errors = "final"` | every error of the tool means that nothing happened |
//! | `final_errors` | conditions on its answer that mean: nothing happened, and asking again is of no use |
//! | `busy_errors`, `retry_after_at` | … but it may when it is asked again; where it says after how many seconds |
//! | `window` | how long after it ended an operation is replayed; not shorter than `retry_horizon` (without it, `timeout`) |
//! | `expired`, `tombstone` | what becomes of a call after that: `refuse` it for as long as `tombstone` (30 days), or take it as `new`. Without it: refuse the caller's own keys, take derived ones as new |
//! | `pass_key_as` | the argument under which the tool expects the key, for any guarded kind |
//! | `limit`, `margin` | `deduplicates`: how long it remembers a key, and how late a copy can arrive |
//! | `settling` | `observable`: how long after it was sent an effect can still appear |
//! | `pass_attempt_as` | `sealable`: the argument under which it expects the attempt's number |
//! | `resource`, `queue_timeout` | calls with the same resource run one at a time, in order; how long one waits for it |
//! | `outside`, `irrevocable`, `exclusive` | its effect is outside, can't be undone, must not overlap with another (without a `resource`, the tool itself is one): two of these need a `resource` and a way to find out, or `opaque = "ask"` |
//!
//! # `[tools.NAME.observe]`, `[tools.NAME.seal]`
//!
//! One of `tool` with `arguments`, `http` with `headers`, `sql` with `database` and `parameters`, or `command`; a seal is a `tool`
//! or a `command`. Placeholders in them: [`settled_observers::Template`]'s. `env:NAME` in a header or as the database is
//! that environment variable. Then:
//!
//! | field | says |
//! | --- | --- |
//! | `applied`, `not_applied`, `sealed` | conditions on the answer, one or a list of which one must hold |
//! | `result` | where in the answer is what the caller is told |
//! | `allow_unannotated` | the tool may be asked although the server does not say whether it only reads |
//! | `timeout` | how long one answer may take |
//! | `within` | how long a caller waits before it is told "unknown"; asking goes on |
//! | `every`, `at_most_every` | the longest wait before the second question, which each one doubles, and the longest at all |
//! | `checks` | how many questions may tell nothing before a person is asked |
//!
//! A condition is a table of which all members must hold: `status` (HTTP), `exit` (command), `rows` (SQL: a number, `some` or
//! `none`), `code` (JSON-RPC error), and `at` (a JSON pointer, also into text that is JSON) with `is`, `exists` or `contains`. Without
//! a declaration, an HTTP 2xx is "applied" and 404 is "not applied"; so are rows and no row; and so are exit status 0, and 1
//! with nothing on the standard error stream. Whatever fails, or fits no condition, says nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use settled::RetryBudget;
use toml::Spanned;

mod answers;
mod care;
mod encryption;
mod error;
mod file;
mod http;
mod key;
mod kind;
mod limits;
mod messages;
mod mode;
mod observe;
mod place;
mod process;
mod retention;
mod seen;
mod server;
mod tool;
mod upstream;

pub use answers::Answers;
pub use encryption::{Confidential, Encrypt, EncryptionConfig};
pub use error::ConfigError;
pub(crate) use http::is_the_proxys_own;
pub use http::{HttpConfig, Principal};
pub use key::{ArgumentPath, KeyFrom, KeyTemplate};
pub use kind::Kind;
pub use limits::LimitsConfig;
pub use messages::{Language, Messages, Text};
pub use mode::Mode;
pub use observe::{Ask, Observe};
pub use retention::Retention;
pub use seen::NewTools;
pub use server::{PickError, ServerConfig};
pub use tool::ToolConfig;
pub use upstream::{HeaderError, UpstreamConfig, UrlConfig};

use file::File;

/// What a repeated call means when its key was derived from its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// `repeat = "replay"`: a repeat is a retry, and gets the recorded answer until the window is over.
    Replay,
    /// `repeat = "new-after-delivery"`: once an answer has reached the client, the same call is a new wish.
    NewAfterDelivery,
}

/// The settings of `[defaults]`, or what holds without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// How long after it ended an operation is still replayed.
    pub window: Duration,
    /// How long an answer is waited for before the outcome counts as unknown.
    pub timeout: Duration,
    /// What a repeat means; `None`: as the tool's annotations suggest.
    pub repeat: Option<Repeats>,
    /// An answer that took longer than this may have come too late for a client that gives up without saying so.
    pub slow_answer: Duration,
    /// How long after a slow answer the same call is taken for a retry.
    pub retry_doubt: Duration,
    /// How long the client is known to wait for an answer; `None`: it is not known.
    pub client_timeout: Option<Duration>,
    /// Whether a client that asks for progress is kept waiting by it, beyond that time.
    pub keep_alive: bool,
}

impl Default for Defaults {
    /// A window of 24 hours, a timeout of 10 minutes; answers are slow after 1 second, and doubted for 10.
    fn default() -> Self {
        Defaults {
            window: Duration::from_secs(24 * 60 * 60),
            timeout: Duration::from_secs(10 * 60),
            repeat: None,
            slow_answer: Duration::from_secs(1),
            retry_doubt: Duration::from_secs(10),
            client_timeout: None,
            keep_alive: false,
        }
    }
}

/// A checked configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// The scope of all keys; `None`: derived from the server's command.
    pub scope: Option<String>,
    /// The ledger: a directory or a URL. What the client is told of an unknown outcome names it, for the person who will look.
    pub ledger: Option<String>,
    /// How long this process counts as the owner of what it has sent without renewing that; `None`: the default.
    pub lease: Option<Duration>,
    /// How long a caller waits for an attempt that is under way already; `None`: until there is an answer.
    pub patience: Option<Duration>,
    /// Where to serve what is counted; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// The retry budget of all processes on the ledger.
    pub retries: RetryBudget,
    /// Who may talk to the proxy over HTTP.
    pub http: HttpConfig,
    /// How much may be asked for.
    pub limits: LimitsConfig,
    /// Whether calls are guarded, for tools that don't say otherwise.
    pub mode: Mode,
    /// What becomes of tools that are not declared.
    pub new_tools: NewTools,
    /// The keys for what is not kept in clear; `None`: there is nothing of that kind.
    pub encryption: Option<EncryptionConfig>,
    /// What the model is told.
    pub messages: Arc<Messages>,
    /// Whether the client is offered a tool that tells how an operation stands.
    pub status_tool: bool,
    /// Whether a client that can deal with tasks gets one for a call that is unknown or takes long.
    pub tasks: bool,
    /// What holds for tools that don't say otherwise.
    pub defaults: Defaults,
    /// The declared tools, by name.
    pub tools: BTreeMap<String, Arc<ToolConfig>>,
    /// Variables that are added to the environment of the server's process; from [`Config::for_server`].
    pub env: BTreeMap<String, String>,
    /// The servers that the file names; see [`Config::for_server`]. Without any, the tools are those of the one server that the
    /// command line names.
    pub servers: BTreeMap<String, ServerConfig>,
}

impl Config {
    /// Reads and checks a configuration file.
    ///
    /// # Errors
    /// [`ConfigError`], which names the file, the line, the field and what is allowed there.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { file: path.to_path_buf(), source })?;
        Config::parse(path, &text)
    }

    /// Checks a configuration's text; `path` is only named in errors.
    ///
    /// # Errors
    /// As [`load`](Config::load).
    pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::syntax(path, text, error))?;
        file.check().map_err(|wrong| ConfigError::wrong(path, text, wrong))
    }
}

/// A value that is well-formed but can't be accepted.
struct Wrong {
    span: Range<usize>,
    field: String,
    problem: String,
}

impl Wrong {
    fn new(span: Range<usize>, field: impl Into<String>, problem: impl Into<String>) -> Wrong {
        Wrong { span, field: field.into(), problem: problem.into() }
    }
}

/// A span of time such as `24h`, longer than nothing.
fn span(field: &str, value: &Spanned<String>) -> Result<Duration, Wrong> {
    let text = value.get_ref();
    let wrong = |problem: String| Wrong::new(value.span(), field, problem);
    let duration = humantime::parse_duration(text).map_err(|error| {
        wrong(format!("`{text}` is not a span of time ({error}): write one such as `30s`, `10m` or `24h`"))
    })?;
    if duration < Duration::from_millis(1) {
        return Err(wrong(format!("`{text}` is too short: it must be at least `1ms`")));
    }
    if duration > Duration::from_secs(100 * 365 * 24 * 60 * 60) {
        return Err(wrong(format!("`{text}` is too long: at most `100y`")));
    }
    Ok(duration)
}

fn repeats(field: &str, value: &Spanned<String>) -> Result<Repeats, Wrong> {
    match value.get_ref().as_str() {
        "replay" => Ok(Repeats::Replay),
        "new-after-delivery" => Ok(Repeats::NewAfterDelivery),
        other => Err(Wrong::new(
            value.span(),
            field,
            format!(
                "`{other}` is not known: write `replay` (a repeat is a retry) or `new-after-delivery` (a repeat is a new wish once an answer has arrived)"
            ),
        )),
    }
}
