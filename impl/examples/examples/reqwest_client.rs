//! A client that may be stopped and started at any time, and still sends each order's charge once.
//!
//! ```sh
//! cargo run -p settled-examples --example reqwest_client -- /tmp/client http://127.0.0.1:8080/charges "order 7"
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use settled::http::{ClientError, GuardMiddleware, GuardedRequest, Replayed};
use settled::ledger::file::{FileLedger, FileLedgerOptions};
use settled::protocol::{Key, Policy, ToolKind};
use settled::{Engine, EngineOptions};

/// An HTTP client whose guarded requests are recorded in this directory.
pub async fn client(ledger: &Path) -> Result<ClientWithMiddleware, Box<dyn Error>> {
    let ledger = FileLedger::open(ledger, FileLedgerOptions::default())?;
    let engine = Engine::start(Arc::new(ledger), EngineOptions::default()).await?;
    let guard = GuardMiddleware::new(engine, reqwest::Client::builder())?;
    Ok(ClientBuilder::new(reqwest::Client::new()).with(guard).build())
}

/// The terms of the server's: it remembers a key for a day, and its 4xx mean that nothing happened.
fn terms(order: &str) -> Result<GuardedRequest, Box<dyn Error>> {
    let kind = ToolKind::Deduplicates { limit: 86_400_000, margin: 60_000, remembers_rejections: true };
    let policy = Policy { errors_final: true, ..Policy::new(kind) };
    Ok(GuardedRequest::new(Key::new("shop", "charge", order)?, policy))
}

/// Charges for an order; returns the answer, and whether it had been given before.
pub async fn pay(client: &ClientWithMiddleware, url: &str, order: &str) -> Result<(String, bool), Box<dyn Error>> {
    let request = client.post(url).header("x-user", "shop").body("4200").with_extension(terms(order)?);
    match request.send().await {
        Ok(response) => {
            let replayed = response.extensions().get() == Some(&Replayed(true));
            Ok((response.text().await?, replayed))
        }
        Err(reqwest_middleware::Error::Middleware(error)) => match error.downcast::<ClientError>()? {
            ClientError::Unknown { key, .. } => Err(format!("{key} may have been charged: not repeating it").into()),
            other => Err(other.into()),
        },
        Err(other) => Err(other.into()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ledger, url, order] = &arguments[..] else {
        return Err("usage: reqwest_client LEDGER URL ORDER".into());
    };
    let (answer, replayed) = pay(&client(Path::new(ledger)).await?, url, order).await?;
    println!("{answer} (replayed: {replayed})");
    Ok(())
}
