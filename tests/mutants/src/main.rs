//! `cargo run -p settled-mutants`: which layer of the tests finds which mistake.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use serde_json::{Value, json};
use settled_mutants::{
    Layer, Mutant, MutantError, Place, Results, Runner, Settings, Tried, Verdict, all, markdown, mutated, patches,
    root, summary, terminal,
};

/// Makes small mistakes in a copy of the code, one at a time, and tells which layer of the tests finds each first. Ends with 1 if
/// one is not found.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Only these: names, `AREA/NAME`, or areas (core, engine, ledger, proxy).
    #[arg(long, num_args = 1.., value_name = "NAME")]
    only: Vec<String>,
    /// Only these layers: types, model, proof, proptest, loom, simulation, process-test.
    #[arg(long, value_delimiter = ',', value_name = "LAYER")]
    layers: Vec<Layer>,
    /// How many crates to build at once.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Write the outcome to a file, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write TABLE.md beside the patches. Needs all of them.
    #[arg(long, conflicts_with_all = ["only", "layers", "sample"])]
    write_table: bool,
    /// Only one mutant of each area, and only the test that is known to find it.
    #[arg(long, conflicts_with_all = ["only", "layers"])]
    sample: bool,
    /// Do not check first that the code passes without a mutant.
    #[arg(long)]
    no_baseline: bool,
    /// Use the copy of the code that the last run made, whatever has changed since.
    #[arg(long)]
    same_copy: bool,
    /// Take what earlier runs found of mutants whose patches have not changed since.
    #[arg(long)]
    resume: bool,
    /// Name the mutants, and do nothing.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let mutants = chosen(arguments)?;
    if arguments.list {
        for mutant in &mutants {
            println!("{:40} {:28} {:13} {}", mutant.id(), mutant.broken(), mutant.layer, mutant.title);
        }
        return Ok(true);
    }
    let layers = if arguments.layers.is_empty() { Layer::ALL.to_vec() } else { arguments.layers.clone() };
    let baseline = !arguments.no_baseline && !arguments.sample;
    let settings = Settings { layers, jobs: arguments.jobs, baseline, sample: arguments.sample };
    let place = Place::new(root());
    let _taken = place.take()?;
    if arguments.same_copy {
        place.restore()?;
    } else {
        place.prepare()?;
    }
    // One that does not fit must not be noticed only after an hour.
    for mutant in &mutants {
        mutated(&place.tree, mutant)?;
    }
    let mut results = Results::open(&place);
    let mut runner = Runner::new(place, settings);
    let mut tried = Vec::new();
    for (number, mutant) in (1..).zip(&mutants) {
        let known = if arguments.resume { results.of(mutant) } else { None };
        let one = match known {
            Some(known) => known,
            None => runner.try_one(mutant)?,
        };
        if !arguments.sample && arguments.layers.is_empty() {
            results.keep(&one)?;
        }
        eprintln!("[{number}/{}] {}", mutants.len(), line(&one));
        tried.push(one);
        if let Some(file) = &arguments.json {
            fs::write(file, serde_json::to_string_pretty(&tried.iter().map(as_json).collect::<Vec<_>>())?)?;
        }
    }
    println!("{}\n\n{}", terminal(&tried), summary(&tried));
    let elsewhere: Vec<&Tried> = tried.iter().filter(|one| one.elsewhere()).collect();
    for one in &elsewhere {
        println!("{}: found by another layer than its patch says ({})", one.mutant.id(), one.mutant.layer);
    }
    if arguments.write_table {
        let file = patches().join("TABLE.md");
        fs::write(&file, markdown(&tried))?;
        println!("Written: {}", file.display());
    }
    Ok(tried.iter().all(|one| matches!(one.verdict, Verdict::Found(_))))
}

fn chosen(arguments: &Arguments) -> Result<Vec<Mutant>, MutantError> {
    let mut mutants = all(&patches())?;
    let is = |mutant: &Mutant, name: &str| mutant.name == name || mutant.id() == name || mutant.area.name() == name;
    if let Some(unknown) = arguments.only.iter().find(|name| !mutants.iter().any(|mutant| is(mutant, name))) {
        return Err(MutantError::NoSuchMutant(unknown.clone()));
    }
    if !arguments.only.is_empty() {
        mutants.retain(|mutant| arguments.only.iter().any(|name| is(mutant, name)));
    }
    if arguments.sample {
        mutants.retain(|mutant| mutant.sample);
    }
    Ok(mutants)
}

fn line(tried: &Tried) -> String {
    let seconds = tried.took.as_secs();
    match &tried.verdict {
        Verdict::Found(found) => format!("{}: {} ({}) {seconds} s", tried.mutant.id(), found.layer, found.by),
        Verdict::Survived => format!("{}: NOT FOUND {seconds} s", tried.mutant.id()),
        Verdict::Broken(error) => format!("{}: broken patch: {error}", tried.mutant.id()),
    }
}

fn as_json(tried: &Tried) -> Value {
    json!({
        "mutant": tried.mutant.id(),
        "title": tried.mutant.title,
        "file": tried.mutant.file,
        "breaks": tried.mutant.breaks.iter().map(|property| property.name()).collect::<Vec<_>>(),
        "expected": tried.mutant.layer,
        "verdict": tried.verdict,
        "seconds": tried.took.as_secs_f64(),
    })
}
