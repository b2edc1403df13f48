//! `settled properties`: what is checked, how it is decided, and a protocol that violates it.

use clap::Args;
use serde::Serialize;
use settled_model::PropertyName;

use crate::failure::{Exit, Failure};
use crate::output::line;

/// Lists the properties: what each says, how it is decided, and a shipped protocol that violates it.
#[derive(Debug, Args)]
pub struct PropertiesArgs {
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PropertyJson {
    name: &'static str,
    says: &'static str,
    means: &'static str,
    violated_by: Option<&'static str>,
}

/// A shipped protocol that violates a property alone. (What can't settle doesn't settle: those two go together.)
fn example(property: PropertyName) -> Option<&'static str> {
    let name = match property {
        PropertyName::AtMostOnce => "key-per-attempt",
        PropertyName::NoPhantomSuccess => "optimistic-answer",
        PropertyName::NoFalseFailure => "cancel-means-failed",
        PropertyName::FaithfulReplay => "failure-then-success",
        PropertyName::NoSuppression => "arguments-as-key",
        PropertyName::IntentFirst => "redis-with-sealable-tool",
        PropertyName::UnknownBlocks => "resend-without-seal",
        PropertyName::NoOverlap => "overlapping-calls",
        PropertyName::Convergence => "devices-first-arrival",
        PropertyName::CausalRespect => "devices-wall-clock",
        PropertyName::Settles => "polls-starve-the-guard",
        PropertyName::CanSettle => "in-progress-for-ever",
        PropertyName::BoundedRetries => "retry-storm",
        PropertyName::BoundedMemory => "never-forgets",
    };
    settled_model::library::text(name).map(|_| name)
}

/// Runs the command.
pub fn run(args: PropertiesArgs) -> Result<Exit, Failure> {
    let all = PropertyName::ALL.iter().map(|property| PropertyJson {
        name: property.name(),
        says: property.says(),
        means: property.means(),
        violated_by: example(*property),
    });
    if args.json {
        crate::output::json(&all.collect::<Vec<_>>())?;
        return Ok(Exit::Good);
    }
    for property in all {
        line(format!("{}: {}", property.name, property.says))?;
        line(format!("    decided: {}", property.means))?;
        if let Some(name) = property.violated_by {
            let alone =
                if property.name == PropertyName::CanSettle.name() { "together with `settles`" } else { "alone" };
            line(format!("    violated {alone} by: {name}"))?;
        }
        line("")?;
    }
    Ok(Exit::Good)
}
