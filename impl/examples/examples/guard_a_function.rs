//! A function that charges a customer, wrapped so that each order is charged once, also across restarts of the program.
//!
//! ```sh
//! cargo run -p settled-examples --example guard_a_function -- /tmp/ledger "order 7"
//! ```
//!
//! Run it again with the same order, and it is told the first receipt; stop it while it charges, and the next run says that
//! the outcome is not known, instead of charging twice.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use settled::ledger::file::{FileLedger, FileLedgerOptions};
use settled::{Engine, EngineOptions, Guard, Guarded};

/// What is asked for.
#[derive(Clone, Serialize)]
pub struct Charge {
    /// Who pays.
    pub customer: String,
    /// How much.
    pub cents: u64,
}

/// What is returned.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// Its number.
    pub number: u64,
}

/// The function that must not run twice for an order.
async fn charge(charge: Charge) -> Result<Receipt, std::io::Error> {
    println!("charging {} {} cents", charge.customer, charge.cents);
    Ok(Receipt { number: charge.cents })
}

/// Charges for an order, or says what became of it before.
pub async fn pay(guard: &Guard, order: &str, asked: &Charge) -> Result<Guarded<Receipt>, Box<dyn Error>> {
    let operation = Guard::operation("shop", "charge").key(order)?.arguments(asked)?.build();
    let asked = asked.clone();
    Ok(guard.call(operation, move || charge(asked.clone())).await?)
}

/// A guard whose records are in this directory.
pub async fn guard(ledger: &Path) -> Result<Guard, Box<dyn Error>> {
    let ledger = FileLedger::open(ledger, FileLedgerOptions::default())?;
    Ok(Guard::new(Engine::start(Arc::new(ledger), EngineOptions::default()).await?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(ledger), Some(order)) = (arguments.next(), arguments.next()) else {
        return Err("usage: guard_a_function LEDGER ORDER".into());
    };
    let guard = guard(Path::new(&ledger)).await?;
    match pay(&guard, &order, &Charge { customer: "alice".into(), cents: 4200 }).await? {
        Guarded::Done { value, replayed } => println!("receipt {}, replayed: {replayed}", value.number),
        Guarded::Failed { error, .. } => println!("it did not happen: {error:?}"),
        other => println!("{}", other.done().map_or_else(|why| why.to_string(), |_| String::new())),
    }
    Ok(())
}
