//! The tokio runtime that commands run in.

use std::future::Future;

use crate::failure::Failure;

/// Runs a future to its end. Whatever is left then (a blocking read of standard input can't be interrupted) is abandoned.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}
