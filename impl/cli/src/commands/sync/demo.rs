//! `settled sync demo`: two devices that were offline, both orders of arrival, everything sent twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use comfy_table::{Table, presets};
use settled_protocol::merge::{Name, View};
use settled_sync::device::{Remote, Rounds};
use settled_sync::server::{self, Origins, ServerOptions};
use settled_sync::store::{self, StoreOptions};
use settled_sync::wire::{Became, Uploaded};
use settled_sync::{Device, DeviceOptions, Schema};
use tokio::net::TcpListener;

use super::change::{What, parse};
use crate::failure::{Exit, Failure};
use crate::output::line;
use crate::runtime::block_on;

/// Shows two devices that act offline on the same things, and come back in either order, with everything sent twice: all end
/// in the same state, and each operation is applied once.
#[derive(Debug, Args)]
pub struct DemoArgs {}

const SCHEMA: &str = "
version = 1
[kinds]
votes = \"counter\"
[kinds.task]
title = \"latest\"
finished = \"earliest\"
priority = \"max\"
tags = \"add-wins\"
";

/// What is done, in this order, while nobody can be reached.
const ACTS: [(&str, &str, &str); 10] = [
    ("phone", "task/1", "title=Buy milk"),
    ("laptop", "task/1", "title=Buy oat milk"),
    ("laptop", "task/1", "priority=2"),
    ("phone", "task/1", "priority=3"),
    ("phone", "task/1", "tags+=urgent"),
    ("laptop", "task/1", "tags+=shop"),
    ("phone", "votes", "+=2"),
    ("laptop", "votes", "+=5"),
    ("laptop", "task/1", "finished=10:05"),
    ("phone", "task/1", "finished=10:20"),
];

const DEVICES: [&str; 2] = ["phone", "laptop"];

type Views = BTreeMap<Name, View>;

/// Runs the command.
pub fn run(_: &DemoArgs) -> Result<Exit, Failure> {
    let whole = tempfile::tempdir()?;
    let begun = whole.path().join("begun");
    line("Two devices, offline, change the same things. By their clocks, in this order:\n")?;
    let made = act(&begun)?;
    block_on(async {
        let mut ends: Vec<(String, Views)> = Vec::new();
        let mut counts = Vec::new();
        for order in [DEVICES, [DEVICES[1], DEVICES[0]]] {
            let place = whole.path().join(order[0]);
            for device in DEVICES {
                copy(&begun.join(device), &place.join(device))?;
            }
            let (states, applied) = arrive(&place, order).await?;
            counts.push(applied);
            ends.extend(states);
        }
        let equal = ends.iter().all(|(_, views)| *views == ends[0].1);
        let once = counts.iter().all(|applied| *applied == made);
        for (who, views) in &ends {
            line(format_args!("{who:<28} {}", shown(views)?))?;
        }
        line(format_args!("\nAll states are equal: {}.", if equal { "yes" } else { "NO" }))?;
        let applied: Vec<_> = counts.iter().map(ToString::to_string).collect();
        line(format_args!("{made} operations were made; the servers applied {}.", applied.join(" and ")))?;
        Ok(if equal && once { Exit::Good } else { Exit::Violated })
    })
}

fn shown(views: &Views) -> Result<String, Failure> {
    let shown = |(target, view): (&Name, &View)| Ok(format!("{target} {}", serde_json::to_string(view)?));
    let shown: Result<Vec<String>, serde_json::Error> = views.iter().map(shown).collect();
    shown.map(|all| all.join("  ")).map_err(|error| Failure::internal(error.to_string()))
}

fn internal(error: impl ToString) -> Failure {
    Failure::internal(error.to_string())
}

fn open(directory: &Path, name: &str) -> Result<Device, Failure> {
    let schema = Schema::parse(SCHEMA).map_err(internal)?;
    let options = DeviceOptions { name: Some(Name::new(name).map_err(internal)?), ..DeviceOptions::default() };
    Device::open(directory, schema, options).map_err(internal)
}

/// Both devices act; returns how many operations that makes.
fn act(begun: &Path) -> Result<u64, Failure> {
    let devices: BTreeMap<_, _> =
        DEVICES.iter().map(|name| Ok((*name, open(&begun.join(name), name)?))).collect::<Result<_, Failure>>()?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["device", "target", "change", "event time"]);
    for (name, target, text) in ACTS {
        // So that no two devices act in the same millisecond.
        std::thread::sleep(Duration::from_millis(2));
        let (device, target) = (&devices[name], Name::new(target).map_err(internal)?);
        let written = parse(text).map_err(internal)?;
        let rule = device.schema().rule(&target).ok_or_else(|| internal("no such kind"))?;
        match (written.change(rule).map_err(internal)?, &written.what) {
            (Some(change), _) => device.act(target.clone(), change),
            (None, What::Set(value) | What::More(value) | What::Less(value)) => {
                device.remove(target.clone(), &written.fields, value.clone())
            }
        }
        .map_err(internal)?;
        let time =
            device.upload(0, usize::MAX).and_then(|upload| upload.operations.last().map(|sent| sent.operation.time));
        table.add_row([name, target.as_str(), text, &time.unwrap_or_default().to_string()]);
    }
    line(format_args!("{table}\n"))?;
    Ok(ACTS.len() as u64)
}

/// The devices come back in this order, to a server of their own. Each sends everything twice, as if the first answer had been lost.
async fn arrive(place: &Path, order: [&str; 2]) -> Result<(Vec<(String, Views)>, u64), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let kept =
        StoreOptions { schema: Schema::parse(SCHEMA).map_err(internal)?, bound: Duration::from_mins(10), most: 1000 };
    let store = store::open(&format!("sqlite:{}", place.join("server.db").display()), kept).await.map_err(internal)?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let options = ServerOptions { origins: Origins::Nobody, ..ServerOptions::default() };
    let serving = tokio::spawn(server::serve(listener, store, options, async move { drop(stopped.await) }));
    let remote = Remote::new(&url, None).map_err(internal)?;
    let devices = order.iter().map(|name| Ok(Arc::new(open(&place.join(name), name)?)));
    let devices = devices.collect::<Result<Vec<_>, Failure>>()?;
    line(format_args!("{} first, everything twice:", order[0]))?;
    for device in &devices {
        let upload = device.upload(0, 1000).ok_or_else(|| internal("nothing to send"))?;
        // Its answer is lost.
        let lost = remote.upload(&upload).await.map_err(internal)?;
        let again = remote.upload(&upload).await.map_err(internal)?;
        device.uploaded(&again).map_err(internal)?;
        line(format_args!("  {}: {}; again: {}", device.name(), counted(&lost), counted(&again)))?;
    }
    line("")?;
    let mut ends = Vec::new();
    for _ in 0..2 {
        for device in &devices {
            Rounds::default().run(device, &remote, |_| {}).await.map_err(internal)?;
        }
    }
    for device in &devices {
        ends.push((format!("{}, {} first:", device.name(), order[0]), device.views()));
    }
    let head = remote.pull(0, None, 1000, Duration::ZERO).await.map_err(internal)?.head;
    drop(stop);
    serving.await.map_err(internal)?.map_err(internal)?;
    ends.sort_by(|one, other| one.0.cmp(&other.0));
    Ok((ends, head))
}

fn counted(uploaded: &Uploaded) -> String {
    let (mut new, mut known) = (0, 0);
    for answer in &uploaded.answers {
        match answer.is {
            Became::Applied { repeated: true, .. } => known += 1,
            _ => new += 1,
        }
    }
    format!("{new} applied, {known} known")
}

fn copy(from: &Path, to: &PathBuf) -> Result<(), Failure> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}
