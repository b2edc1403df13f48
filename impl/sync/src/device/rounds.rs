//! Rounds of a device with the server: everything up, then everything down, until both have the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Device, DeviceError, Remote, RemoteError};
use crate::wire::{Answer, Became, ClockCheck};

/// How a device keeps together with its server.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// The most operations of one upload. The server's own limit counts, too.
    pub batch: usize,
    /// The most operations of one pull.
    pub pull: usize,
    /// For how long a server that can't be reached, or is busy, is tried again.
    pub patience: Duration,
    /// The longest wait between two tries; the first is a hundredth of it.
    pub pause: Duration,
}

impl Default for Rounds {
    /// 500 up, 2,000 down, a minute, 10 s.
    fn default() -> Self {
        Self { batch: 500, pull: 2000, patience: Duration::from_mins(1), pause: Duration::from_secs(10) }
    }
}

/// How far a round is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Operations that the server has answered.
    pub sent: usize,
    /// Operations that are still to be sent.
    pub pending: usize,
    /// Operations pulled.
    pub pulled: u64,
    /// Operations still to be pulled, as far as is known.
    pub behind: u64,
}

/// What came of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Applied now.
    pub applied: usize,
    /// Applied before: an earlier answer did not arrive.
    pub repeated: usize,
    /// Given another event time.
    pub redated: usize,
    /// Refused for good.
    pub refused: usize,
    /// Kept for a server with a later schema.
    pub held: usize,
    /// Pulled.
    pub pulled: u64,
    /// Requests that were made again.
    pub again: u32,
    /// What the server said of this device's clock, if it was sent anything.
    pub clock: Option<ClockCheck>,
}

/// Why a round has ended early. What was done up to then counts, and the next round goes on from there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// The server.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// This device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A thread was ended.
    #[error("the program is being ended")]
    Ended,
}

impl Rounds {
    /// Sends all that the device has, then pulls all that the server has.
    ///
    /// Dropping the future is safe at any moment.
    ///
    /// # Errors
    /// [`RoundError`].
    pub async fn run(
        &self,
        device: &Arc<Device>,
        remote: &Remote,
        mut progress: impl FnMut(Progress),
    ) -> Result<Synced, RoundError> {
        let mut synced = Synced::default();
        let mut batch = self.batch;
        while let Some(upload) = device.upload(synced.held, batch) {
            let sent = upload.operations.len();
            let uploaded = match self.insist(&mut synced.again, || remote.upload(&upload)).await {
                // Its limits are narrower than ours.
                Err(RemoteError::Refused { status: 413, .. }) if sent > 1 => {
                    batch = sent / 2;
                    continue;
                }
                uploaded => uploaded?,
            };
            batch = batch.min(uploaded.most.max(1));
            synced.clock = Some(uploaded.clock);
            let answered = upload.operations.iter().zip(&uploaded.answers);
            if uploaded.answers.len() != sent
                || answered.into_iter().any(|(sent, answer)| sent.operation.op_id != answer.op_id)
            {
                return Err(RemoteError::Foreign("it did not answer the operations that were sent".into()).into());
            }
            uploaded.answers.iter().for_each(|answer| synced.count(answer));
            on_disk(device, move |device| device.uploaded(&uploaded)).await?;
            progress(synced.progress(device, 0));
        }
        loop {
            let pull = || remote.pull(device.cursor(), device.last(), self.pull, Duration::ZERO);
            let pulled = self.insist(&mut synced.again, pull).await?;
            let nothing = pulled.operations.is_empty();
            synced.pulled += pulled.operations.len() as u64;
            let behind = pulled.head.saturating_sub(pulled.cursor);
            on_disk(device, move |device| device.pulled(&pulled)).await?;
            progress(synced.progress(device, behind));
            if nothing || behind == 0 {
                return Ok(synced);
            }
        }
    }

    /// Makes a request again while it may succeed, with full jitter (Brooker, "Exponential Backoff and Jitter", 2015).
    async fn insist<T, F: Future<Output = Result<T, RemoteError>>>(
        &self,
        again: &mut u32,
        request: impl Fn() -> F,
    ) -> Result<T, RemoteError> {
        let deadline = Instant::now() + self.patience;
        let mut most = self.pause / 100;
        loop {
            let error = match request().await {
                Err(error) if error.passes() && Instant::now() < deadline => error,
                answer => return answer,
            };
            let told = match error {
                RemoteError::Busy { after, .. } => after.unwrap_or_default().min(self.pause),
                _ => Duration::ZERO,
            };
            tokio::time::sleep(told + most.mul_f64(fastrand::f64())).await;
            most = (most * 2).min(self.pause);
            *again += 1;
        }
    }
}

impl Synced {
    fn count(&mut self, answer: &Answer) {
        match &answer.is {
            Became::Applied { redated, repeated, .. } => {
                *(if *repeated { &mut self.repeated } else { &mut self.applied }) += 1;
                self.redated += usize::from(*redated);
            }
            Became::Refused { .. } => self.refused += 1,
            Became::Held { .. } => self.held += 1,
        }
    }

    fn progress(&self, device: &Device, behind: u64) -> Progress {
        let sent = self.applied + self.repeated + self.refused + self.held;
        Progress { sent, pending: device.pending(), pulled: self.pulled, behind }
    }
}

/// Writes to the disk, which may take a moment, on a thread that may wait.
async fn on_disk(
    device: &Arc<Device>,
    write: impl FnOnce(&Device) -> Result<(), DeviceError> + Send + 'static,
) -> Result<(), RoundError> {
    let device = Arc::clone(device);
    match tokio::task::spawn_blocking(move || write(&device)).await {
        Ok(written) => Ok(written?),
        Err(_) => Err(RoundError::Ended),
    }
}
