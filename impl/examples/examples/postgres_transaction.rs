//! A transfer between two accounts that commits in the same transaction as the record of it: exactly once.
//!
//! ```sh
//! cargo run -p settled-examples --example postgres_transaction -- postgres://user@localhost/shop "order 7"
//! ```

use std::error::Error;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use settled::ledger::postgres::{PostgresLedger, PostgresOptions, Undo, transactional};
use settled::protocol::{Policy, ToolKind};
use settled::{Engine, EngineOptions, Guard, Guarded};

/// What is to be moved.
#[derive(Serialize, Deserialize)]
pub struct Transfer {
    /// From this account.
    pub from: String,
    /// To this one.
    pub to: String,
    /// As much.
    pub cents: i64,
}

/// The transfer as SQL. Nothing else happens in its transaction but that it is recorded.
fn transfers(ledger: Arc<PostgresLedger>) -> Arc<dyn settled::Tool> {
    Arc::new(transactional(ledger, |transaction, outgoing| {
        Box::pin(async move {
            let Ok(Transfer { from, to, cents }) = serde_json::from_slice(&outgoing.arguments) else {
                return Err(Undo::Refused("these are not the arguments of a transfer".into()));
            };
            let take = "UPDATE accounts SET cents = cents - $2 WHERE name = $1 AND cents >= $2";
            if transaction.execute(take, &[&from, &cents]).await? != 1 {
                return Err(Undo::Refused("not enough in the account".into()));
            }
            let give = "UPDATE accounts SET cents = cents + $2 WHERE name = $1";
            if transaction.execute(give, &[&to, &cents]).await? != 1 {
                return Err(Undo::Refused("no such account".into()));
            }
            Ok("\"moved\"".into())
        })
    }))
}

/// Moves money, or says what became of it before.
pub async fn transfer(url: &str, order: &str, asked: &Transfer) -> Result<Guarded<String>, Box<dyn Error>> {
    let ledger = Arc::new(PostgresLedger::connect(url, PostgresOptions::default()).await?);
    let guard = Guard::new(Engine::start(ledger.clone(), EngineOptions::default()).await?);
    let policy = Policy::new(ToolKind::Transactional);
    let operation = Guard::operation("bank", "transfer").key(order)?.arguments(asked)?.policy(policy).build();
    Ok(guard.call_tool(operation, transfers(ledger)).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, order] = &arguments[..] else {
        return Err("usage: postgres_transaction URL ORDER".into());
    };
    let asked = Transfer { from: "alice".into(), to: "bob".into(), cents: 100 };
    println!("{:?}", transfer(url, order, &asked).await?);
    Ok(())
}
