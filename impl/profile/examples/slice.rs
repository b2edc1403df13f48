//! Temporary: the harness without the command line's other parts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, missing_docs)]
use settled_profile::install::{Cache, Wanted};
use settled_profile::matrix::{self, Plan};
use settled_profile::run::{Programs, abandon_all};
use settled_profile::tool::{Serve, ToolOptions, serve};
use settled_profile::{Cell, FORMAT, Machine, Report, predict, report};
use std::sync::Arc;
use std::time::Duration;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1)).cloned();
    let all = |name: &str| -> Vec<String> {
        args.iter().enumerate().filter(|(_, arg)| *arg == name).filter_map(|(at, _)| args.get(at + 1).cloned()).collect()
    };
    if args[0] == "profile-tool" {
        let rest: Vec<std::ffi::OsString> =
            args.iter().position(|arg| arg == "--").map(|at| args[at + 1..].iter().map(Into::into).collect()).unwrap_or_default();
        let serves = match (value("--listen"), value("--relay")) {
            (Some(at), Some(to)) => Serve::Relay(at.parse().unwrap(), to.parse().unwrap()),
            (Some(at), None) => Serve::Http(at.parse().unwrap()),
            _ if rest.is_empty() => Serve::Stdio,
            _ => Serve::RelayStdio(rest),
        };
        let options = ToolOptions { serve: serves, control: value("--control").unwrap().into(), effects: value("--effects").unwrap().into() };
        serve(options).await.unwrap();
        std::process::exit(0);
    }
    let cache = Cache::at(std::env::var("SETTLED_PROFILE_CACHE").unwrap_or_else(|_| "/tmp/profile-cache".into()).into());
    match args[1].as_str() {
        "install" => {
            for name in &args[2..] {
                match cache.install(&Wanted::named(name).unwrap(), |command| eprintln!("{command}")) {
                    Ok(adapter) => println!("{}", adapter.directory.display()),
                    Err(error) => eprintln!("{error}"),
                }
            }
        }
        "cells" => Cell::ALL.iter().for_each(|cell| println!("{cell}: {}", cell.says())),
        "run" => {
            let own = std::env::current_exe().unwrap();
            let (cells, variants) = (all("--cell"), all("--variant"));
            for cell in &cells {
                assert!(Cell::named(cell).is_some(), "no cell {cell}");
            }
            let server = if args.iter().any(|arg| arg == "--postgres") { Some(settled_profile::database::Server::start().await.unwrap()) } else { None };
            let plan = Plan {
                programs: Programs { tool: vec![own.clone().into(), "profile-tool".into()], settled: std::env::var("SETTLED").map_or(own, Into::into) },
                cells: Cell::ALL.iter().copied().filter(|cell| cells.is_empty() || cells.iter().any(|name| name == cell.name())).collect(),
                repeat: value("--repeat").map_or(1, |n| n.parse().unwrap()),
                seed: value("--seed").map_or(1, |n| n.parse().unwrap()),
                behind: value("--behind").map(|_| settled_profile::run::Behind::Settled),
                deadline: Duration::from_secs(value("--deadline").map_or(60, |n| n.parse().unwrap())),
                keep: value("--keep").map(Into::into),
                jobs: Arc::new(tokio::sync::Semaphore::new(value("--jobs").map_or(2, |n| n.parse().unwrap()))),
                postgres: server,
            };
            let mut profiles = Vec::new();
            let adapter = cache.installed(&Wanted::named(&args[2]).unwrap()).unwrap_or_else(|error| panic!("{error}"));
            for variant in adapter.ways() {
                if !variants.is_empty() && !variants.contains(&variant.name) {
                    continue;
                }
                let name = variant.name.clone();
                let over: matrix::Over = Arc::new(move |cell: Cell, run: &settled_profile::Run| {
                    eprintln!("{name} {cell}: {} {:?} {:?}", run.outcome, run.bite, run.effects)
                });
                let mut profile = matrix::profile(&plan, &adapter, &variant, &over).await.unwrap_or_else(|error| panic!("{error}"));
                predict::annotate(&mut profile, &adapter, &variant);
                profiles.push(profile);
            }
            abandon_all();
            let report = Report {
                format: FORMAT.into(), made: "2026-01-01T00:00:00Z".into(), command: args.join(" "), settled: "0".into(),
                machine: Machine { system: "Linux".into(), processor: "x".into(), cores: 2 }, seed: plan.seed, profiles,
            };
            if let Some(path) = value("--json") {
                std::fs::write(path, serde_json::to_string_pretty(&report).unwrap()).unwrap();
            }
            if let Some(path) = value("--html") {
                std::fs::write(path, report::html(std::slice::from_ref(&report))).unwrap();
            }
            println!("{}", report::table(&report));
        }
        _ => panic!("run, install, cells"),
    }
}
