//! Why an observer can't be used, or could not tell.

use std::time::Duration;

use crate::given::Missing;

/// Why an observer's declaration can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub(crate) String);

/// Why an observer could not tell. None of these ever means "not applied".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The question can't be put.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A value can't be put where the template wants it.
    #[error("{0}")]
    Unfit(String),
    /// It took too long.
    #[error("no answer within {}", humane(*.0))]
    TimedOut(Duration),
    /// It could not be asked, or failed.
    #[error("{0}")]
    Failed(String),
    /// It answered with more than is read.
    #[error("its answer is longer than {0}")]
    TooLong(&'static str),
}

fn humane(time: Duration) -> String {
    if time.as_millis().is_multiple_of(1000) {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}
