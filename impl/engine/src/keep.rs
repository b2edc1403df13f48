//! Durable writes and reads, with the doubt that an error of the ledger leaves.

use std::time::Duration;

use settled_protocol::{Digest, Durable, Key};
use tokio::time::Instant;
use tracing::Instrument;

use crate::engine::Inner;
use crate::fault;
use crate::figures;
use crate::ledger::{Change, Entry, LedgerError, Stored};
use crate::line;

/// What became of a change.
pub(crate) enum Kept {
    /// It is durable.
    Durable(Durable<Digest>),
    /// It was not made, and never will be: the ledger holds this instead.
    Refused(Option<Box<Entry>>),
}

impl Inner {
    /// Stores a change. An error of a compare-and-set leaves its effect unknown, so the ledger is looked at before anything
    /// else, and then the *same* change is tried again: its version lets it take effect once at most, also if an earlier
    /// try arrives late.
    ///
    /// # Errors
    /// If the ledger did not recover within the patience. Whether the change is, or will become, durable is then unknown.
    pub(crate) async fn keep(&self, change: &Change) -> Result<Kept, LedgerError> {
        let mut tries = Tries::new(self.options.ledger_patience);
        loop {
            fault::point("before-store");
            let begun = Instant::now();
            let span = tracing::info_span!("settled.store", key = %change.key);
            let stored = self.ledger.compare_and_set(change.clone()).instrument(span).await;
            figures::stored(begun.elapsed());
            fault::point("after-store");
            let error = match stored {
                Ok(Stored::Durable(durable)) => return Ok(Kept::Durable(durable)),
                Ok(Stored::Refused) => {
                    let entry = self.look(&change.key).await?;
                    let proof = proved_by_reading(change, entry.as_ref());
                    return Ok(proof.map_or_else(|| refused(entry), Kept::Durable));
                }
                Err(error) => error,
            };
            if let Ok(entry) = self.ledger.get(&change.key).await {
                if let Some(durable) = proved_by_reading(change, entry.as_ref()) {
                    return Ok(Kept::Durable(durable));
                }
                if entry.as_ref().map(|entry| entry.record.version()) != change.expected {
                    return Ok(refused(entry));
                }
            }
            tries.again_after(error).await?;
        }
    }

    /// Reads a key's entry.
    ///
    /// # Errors
    /// If the ledger did not recover within the patience.
    pub(crate) async fn look(&self, key: &Key) -> Result<Option<Entry>, LedgerError> {
        let mut tries = Tries::new(self.options.ledger_patience);
        loop {
            match self.ledger.get(key).await {
                Ok(entry) => return Ok(entry),
                Err(error) => tries.again_after(error).await?,
            }
        }
    }
}

fn refused(entry: Option<Entry>) -> Kept {
    Kept::Refused(entry.map(Box::new))
}

/// The proof that a change is durable, if reading shows exactly its record.
///
/// Reads return only what is durable, so the record is. It is *this* driver's record: it was stored under this process's
/// epoch, which no other process has (two that begin one call in the same millisecond store equal records); and within the
/// process only the key's one leader stores such records, each with a version of its own. So the right to send that the record
/// stands for has not been used by anyone else.
fn proved_by_reading(change: &Change, entry: Option<&Entry>) -> Option<Durable<Digest>> {
    let Entry { record, by, .. } = entry?;
    (*record == change.record && *by == change.by).then(|| Durable::attest(record))
}

/// Whether waiting can't help, for as long as a caller waits.
fn is_permanent(error: &LedgerError) -> bool {
    match error {
        LedgerError::Unavailable(_) => false,
        LedgerError::Poisoned(_) | LedgerError::Corrupt(_) | LedgerError::TooLarge(_) => true,
    }
}

/// Repeats with growing waits until a deadline.
pub(crate) struct Tries {
    until: Instant,
    delay: Duration,
    is_hopeless: fn(&LedgerError) -> bool,
}

impl Tries {
    /// Tries for this long.
    pub(crate) fn new(patience: Duration) -> Tries {
        Tries { until: line::after(patience), delay: Duration::from_millis(5), is_hopeless: is_permanent }
    }

    /// Tries for this long, with nobody who waits: a ledger that refuses all writes may be opened again meanwhile.
    pub(crate) fn unattended(patience: Duration) -> Tries {
        let is_hopeless = |error: &LedgerError| is_permanent(error) && !matches!(error, LedgerError::Poisoned(_));
        Tries { is_hopeless, ..Tries::new(patience) }
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The error given, if waiting can't help or the time is over.
    pub(crate) async fn again_after(&mut self, error: LedgerError) -> Result<(), LedgerError> {
        if (self.is_hopeless)(&error) || Instant::now() + self.delay > self.until {
            return Err(error);
        }
        tokio::time::sleep(self.delay).await;
        self.delay = (self.delay * 2).min(Duration::from_secs(1));
        Ok(())
    }
}
