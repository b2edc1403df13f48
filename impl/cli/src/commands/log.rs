//! `settled log`: reads a ledger, also while it is in use.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use serde::Serialize;
use settled::protocol::{Cause, Digest, Key, Record, State, Time, Verdict};
use settled::{Change, Entry, Filter, Ledger};
use settled_mcp::Reader;

use crate::failure::{Exit, Failure};
use crate::ledger::LedgerArgs;
use crate::runtime::block_on;

/// Reads a ledger: which operations there are, and the whole story of one.
#[derive(Debug, Args)]
pub struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// List the operations.
    List {
        #[command(flatten)]
        ledger: LedgerArgs,
        /// Only those that are not settled: what may need a person.
        #[arg(long)]
        unsettled: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show one operation: its state, attempts, times, what was asked, what was sent, and every durable step.
    Show {
        /// Its key, or the beginning of a key that only it has.
        key: String,
        #[command(flatten)]
        ledger: LedgerArgs,
        /// A file with a key of `[encryption]`, to show what is encrypted; may be given several times [default: those of the
        /// configuration, if one is given]
        #[arg(long, value_name = "FILE")]
        key_file: Vec<PathBuf>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(args: LogArgs) -> Result<Exit, Failure> {
    block_on(async move {
        match args.command {
            LogCommand::List { ledger, unsettled, json } => {
                let ledger = ledger.open_existing().await?.ledger;
                let filter = if unsettled { Filter::Unsettled } else { Filter::All };
                list(&ledger.scan(filter).await?, json)
            }
            LogCommand::Show { key, ledger: at, key_file, json } => {
                let reader = reader(&at, &key_file)?;
                let opened = at.open_existing().await?;
                let entry = find(&opened.ledger, &key).await?;
                let entry = match reader {
                    Some(reader) => {
                        if let Some(id) = reader.lacks(&entry) {
                            eprintln!(
                                "settled: it is encrypted with the key {id}, and the file of that key was not given"
                            );
                        }
                        reader.readable(entry)
                    }
                    None => entry,
                };
                let history = opened.ledger.history(&entry.key).await?;
                show(&entry, &history, &at.repeated(&opened), json)
            }
        }
    })
}

/// What reads encrypted parts, if there are keys to.
fn reader(at: &LedgerArgs, key_files: &[PathBuf]) -> Result<Option<Reader>, Failure> {
    let reader = match at.configured()?.and_then(|config| config.encryption) {
        Some(config) if key_files.is_empty() => Reader::open(&config).map(Some),
        _ => Reader::of_files(key_files),
    };
    reader.map_err(|error| Failure::input(error.to_string()))
}

/// The entry of a key, or of the only key that begins so.
pub async fn find(ledger: &Arc<dyn Ledger>, key: &str) -> Result<Entry, Failure> {
    if let Ok(exact) = key.parse::<Key>()
        && let Some(entry) = ledger.get(&exact).await?
    {
        return Ok(entry);
    }
    let mut alike: Vec<Entry> = ledger.scan(Filter::All).await?;
    alike.retain(|entry| entry.key.to_string().starts_with(key));
    match (alike.pop(), alike.len()) {
        (Some(entry), 0) => Ok(entry),
        (None, _) => Err(Failure::nothing(format!("no operation has the key “{key}”: `settled log list` shows all"))),
        (Some(_), more) => Err(Failure::nothing(format!("{} keys begin with “{key}”: write more of it", more + 1))),
    }
}

fn list(entries: &[Entry], json: bool) -> Result<Exit, Failure> {
    if json {
        crate::output::json(&entries.iter().map(EntryJson::of).collect::<Vec<_>>())?;
        return Ok(Exit::Good);
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["key", "state", "attempts", "last sent at", "asked"]);
    for entry in entries {
        let record = &entry.record;
        let sent = record.sent();
        table.add_row([
            entry.key.to_string(),
            state(record),
            sent.map_or(0, |sent| sent.attempt().get()).to_string(),
            sent.map_or_else(|| "–".to_owned(), |sent| time(sent.at())),
            shortened(&entry.asked, 60),
        ]);
    }
    crate::output::line(table)?;
    let open = entries.iter().filter(|entry| !entry.record.is_settled()).count();
    let plural = if entries.len() == 1 { "" } else { "s" };
    crate::output::line(format!("{} operation{plural}, {open} not settled", entries.len()))?;
    Ok(Exit::Good)
}

fn show(entry: &Entry, history: &[Change], ledger: &str, json: bool) -> Result<Exit, Failure> {
    if json {
        let steps = history.iter().map(ChangeJson::of).collect();
        crate::output::json(&WholeJson { operation: EntryJson::of(entry), steps })?;
        return Ok(Exit::Good);
    }
    let record = &entry.record;
    let mut lines = vec![
        format!("key          {}", entry.key),
        format!("state        {}", state(record)),
        format!("fingerprint  {}", record.fingerprint()),
        format!("asked at     {}", time(record.created())),
    ];
    if let Some(sent) = record.sent() {
        lines.push(format!(
            "attempts     {}, the last at {} by process number {}",
            sent.attempt(),
            time(sent.at()),
            sent.owner()
        ));
    } else {
        lines.push("attempts     0: nothing was sent".to_owned());
    }
    lines.push(format!("asked        {}", text(&entry.asked)));
    lines.push(match &entry.sent {
        Some(sent) => format!("sent         {}", text(sent)),
        None if entry.tombstone => "sent         –".to_owned(),
        None if record.sent().is_some() => "sent         as asked".to_owned(),
        None => "sent         nothing".to_owned(),
    });
    if let Some(resource) = &entry.resource {
        lines.push(format!("resource     {resource}, number {} in its line", entry.place));
    }
    if let Some(outcome) = &entry.outcome {
        lines.push(format!("answer       {}", text(outcome)));
    }
    if let Some(note) = &entry.note {
        lines.push(format!("note         {note}"));
    }
    if entry.tombstone {
        lines.push("content      forgotten, its retention is over: only this is left, to refuse the key".to_owned());
    }
    if let Some(keep_until) = entry.keep_until {
        lines.push(format!("kept until   {}", time(keep_until)));
    }
    lines.push("steps".to_owned());
    for change in history {
        lines.push(format!(
            "  {}  {:<18} → {} (by process number {}{})",
            time(change.at),
            change.event,
            state(&change.record),
            change.by,
            change.note.as_ref().map_or_else(String::new, |note| format!("; note: {note}"))
        ));
    }
    if matches!(record.state(), State::Unknown { .. } | State::Escalated { .. }) {
        let key = &entry.key;
        lines.push(
            "Whether it happened is not known. Look at the tool's own records, then say what you found:".to_owned(),
        );
        for (verdict, note, more) in [
            ("succeeded", "where you saw it", ""),
            ("failed", "where it is missing", " [--nothing-pending]"),
            ("abandoned", "why nobody will know", " [--nothing-pending]"),
        ] {
            lines.push(format!("  settled resolve '{key}'{ledger} --as {verdict} --note \"{note}\"{more}"));
        }
    }
    crate::output::line(lines.join("\n"))?;
    Ok(Exit::Good)
}

/// A time, readable by people and programs alike.
pub fn time(at: Time) -> String {
    match SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at.0)) {
        Some(at) => humantime::format_rfc3339_millis(at).to_string(),
        None => format!("{at} ms"),
    }
}

/// The arguments of a call, or whatever was asked, in at most so many characters.
fn shortened(asked: &Bytes, most: usize) -> String {
    let arguments = serde_json::from_slice::<serde_json::Value>(asked)
        .ok()
        .and_then(|asked| Some(asked.get("arguments")?.to_string()));
    let text = arguments.unwrap_or_else(|| String::from_utf8_lossy(asked).into_owned());
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn text(body: &Bytes) -> String {
    const MOST: usize = 2_000;
    let text = String::from_utf8_lossy(body);
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} bytes; --json shows all)", &text[..end], body.len()),
        None => text.into_owned(),
    }
}

/// A cause in words.
pub fn why(cause: &Cause<Digest>) -> &'static str {
    match cause {
        Cause::TimedOut => "no answer in time",
        Cause::ConnectionLost => "the connection or the tool's process ended",
        Cause::Error(_) => "an error that can follow an effect",
        Cause::Refused(_) => "refused, but another attempt may apply",
        Cause::OwnerLost => "the process that had sent it ended",
    }
}

fn state(record: &Record<Digest>) -> String {
    match record.state() {
        State::Unknown { cause, .. } => format!("unknown: {}", why(cause)),
        State::Escalated { cause, .. } => format!("unknown, needs a person: {}", why(cause)),
        State::Settled { verdict: Verdict::Succeeded(_), .. } => "succeeded".to_owned(),
        State::Settled { verdict: Verdict::Failed(_), .. } => "failed: no effect".to_owned(),
        State::Settled { verdict: Verdict::Abandoned(_), .. } => "abandoned".to_owned(),
        other => other.name().to_owned(),
    }
}

#[derive(Serialize)]
struct EntryJson {
    key: String,
    state: &'static str,
    summary: String,
    record: Record<Digest>,
    asked: String,
    sent: Option<String>,
    answer: Option<String>,
    note: Option<String>,
    resource: Option<String>,
    place: u64,
    keep_until: Option<String>,
    tombstone: bool,
}

impl EntryJson {
    fn of(entry: &Entry) -> EntryJson {
        let whole = |body: &Bytes| String::from_utf8_lossy(body).into_owned();
        EntryJson {
            key: entry.key.to_string(),
            state: entry.record.state().name(),
            summary: state(&entry.record),
            record: entry.record,
            asked: whole(&entry.asked),
            sent: entry.sent.as_ref().map(whole),
            answer: entry.outcome.as_ref().map(whole),
            note: entry.note.clone(),
            resource: entry.resource.as_ref().map(ToString::to_string),
            place: entry.place,
            keep_until: entry.keep_until.map(time),
            tombstone: entry.tombstone,
        }
    }
}

#[derive(Serialize)]
struct ChangeJson {
    at: String,
    event: String,
    state: &'static str,
    version: u64,
    owner: u32,
    note: Option<String>,
}

impl ChangeJson {
    fn of(change: &Change) -> ChangeJson {
        ChangeJson {
            at: time(change.at),
            event: change.event.clone(),
            state: change.record.state().name(),
            version: change.record.version().0,
            owner: change.by.0,
            note: change.note.clone(),
        }
    }
}

#[derive(Serialize)]
struct WholeJson {
    operation: EntryJson,
    steps: Vec<ChangeJson>,
}
