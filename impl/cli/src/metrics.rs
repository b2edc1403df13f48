//! `/metrics`: what is counted, for Prometheus.

use std::net::SocketAddr;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

use crate::failure::Failure;

/// Seconds until a change is durable: from a fast disk to a ledger in trouble.
const STORE_SECONDS: [f64; 16] =
    [0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// Seconds that operations wait for their resource.
const LINE_SECONDS: [f64; 10] = [0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0];

/// Serves the figures of this process at this address from now on (any path; `/health` answers `OK`). To be called within the
/// tokio runtime, and before anything is counted.
///
/// # Errors
/// If nothing can listen there.
pub fn serve(address: SocketAddr) -> Result<(), Failure> {
    if address.port() == 0 {
        return Err(Failure::input(format!("--metrics {address}: name a port, so that it is known where to look")));
    }
    let installed = PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets_for_metric(Matcher::Full("settled_store_seconds".into()), &STORE_SECONDS)
        .and_then(|builder| builder.set_buckets_for_metric(Matcher::Full("settled_line_seconds".into()), &LINE_SECONDS))
        .and_then(|builder| {
            let full = Matcher::Full("settled_sync_upload_seconds".into());
            builder.set_buckets_for_metric(full, &settled_sync::server::UPLOAD_SECONDS)
        })
        .and_then(PrometheusBuilder::install);
    match installed {
        Ok(()) => {
            settled::figures::describe();
            Ok(())
        }
        Err(BuildError::FailedToCreateHTTPListener(why)) => Err(Failure::input(format!(
            "metrics can't be served at {address}: {why}. Each process needs a port of its own: choose another one with --metrics"
        ))),
        Err(error) => Err(Failure::internal(format!("metrics can't be served at {address}: {error}"))),
    }
}
