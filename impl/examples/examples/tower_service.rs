//! An HTTP service whose `POST /charges` takes an `Idempotency-Key` and charges once for each.
//!
//! ```sh
//! cargo run -p settled-examples --example tower_service -- /tmp/ledger 127.0.0.1:8080
//! curl -i http://127.0.0.1:8080/charges -H 'Idempotency-Key: "order 7"' -H 'X-User: alice' -d 4200
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use http::request::Parts;
use settled::http::{Described, GuardLayer, Route};
use settled::ledger::file::{FileLedger, FileLedgerOptions};
use settled::{Engine, EngineOptions};

/// Which requests are guarded, and whose keys they are.
fn describe(request: &Parts) -> Described {
    let user = request.headers.get("x-user").and_then(|user| user.to_str().ok());
    match (request.uri.path(), user) {
        ("/charges", Some(user)) => Route::new(user, "POST /charges").into(),
        _ => Described::PassOn,
    }
}

/// The service, guarded.
pub fn app(engine: Engine) -> Router {
    let charged = Arc::new(AtomicU64::new(0));
    let total = charged.clone();
    let charge = async move |cents: String| match cents.parse() {
        Ok(cents) => {
            (StatusCode::CREATED, format!("{} cents in all\n", charged.fetch_add(cents, Ordering::SeqCst) + cents))
        }
        Err(_) => (StatusCode::UNPROCESSABLE_ENTITY, "how many cents?\n".to_owned()),
    };
    Router::new()
        .route("/charges", post(charge))
        .route("/charged", get(async move || total.load(Ordering::SeqCst).to_string()))
        .layer(GuardLayer::new(engine, describe))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(ledger), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tower_service LEDGER ADDRESS".into());
    };
    let ledger = FileLedger::open(ledger, FileLedgerOptions::default())?;
    let engine = Engine::start(Arc::new(ledger), EngineOptions::default()).await?;
    axum::serve(tokio::net::TcpListener::bind(address).await?, app(engine)).await?;
    Ok(())
}
