//! Why the engine can't do what it was asked for.

use settled_protocol::{Key, Refusal};

use crate::ledger::LedgerError;

/// Why the engine can't do what it was asked for. None of these ever stands for a call that may have been sent: such a
/// call is answered with [`Answer::Unknown`](crate::Answer::Unknown).
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The ledger failed before anything was sent for this call: repeat it with the same key once the ledger works again.
    #[error("nothing was sent for this call: {0}")]
    NotSent(LedgerError),
    /// The ledger failed at something else than a call.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// There is no record of this key.
    #[error("the ledger holds no operation with the key {0}: list the keys that it holds, and check the spelling")]
    NoSuchKey(Key),
    /// What was asked for may not be done with the operation as it stands.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The operation that this was about is over, and another one has begun under its key: nothing was done to that one.
    #[error("another operation has begun under the key {0} meanwhile, which was left alone: look at it first")]
    AnotherOperation(Key),
}
