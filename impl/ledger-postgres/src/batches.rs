//! Gathering questions: while some are being answered, those that come queue up and are then sent together.

use std::sync::Arc;

use settled::LedgerError;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::lane::{Lane, Live};

/// At most this many questions are sent together,
const MAX_QUESTIONS: usize = 256;
/// and no more once they have this many bytes, or need this many locks.
const MAX_BYTES: usize = 8 << 20;
const MAX_LOCKS: usize = 64;

/// How to answer many questions at once.
#[async_trait::async_trait]
pub(crate) trait Work: Send + Sync + 'static {
    type Question: Send + Sync + 'static;
    type Answer: Send + 'static;

    fn bytes(question: &Self::Question) -> usize;

    /// How many locks of its own it needs at the server, which has a limited number.
    fn locks(question: &Self::Question) -> usize;

    /// One answer for each question, in their order.
    async fn run(&self, live: &Live, batch: &[&Self::Question]) -> Vec<Result<Self::Answer, LedgerError>>;
}

/// A question, and where its answer is waited for. The question is shared, so that it can be asked again.
type Asked<W> = (Arc<<W as Work>::Question>, oneshot::Sender<Result<<W as Work>::Answer, LedgerError>>);

/// The way to those who answer.
pub(crate) struct Batches<W: Work> {
    queue: mpsc::UnboundedSender<Asked<W>>,
}

impl<W: Work> Batches<W> {
    /// Each lane sends what has gathered whenever it is free. Ends when this is dropped.
    pub fn start(work: W, lanes: Vec<Arc<Lane>>) -> Batches<W> {
        let (queue, gathered) = mpsc::unbounded_channel();
        let (work, gathered) = (Arc::new(work), Arc::new(Mutex::new(gathered)));
        for lane in lanes {
            tokio::spawn(serve(Arc::clone(&work), lane, Arc::clone(&gathered)));
        }
        Batches { queue }
    }

    pub async fn ask(&self, question: Arc<W::Question>) -> Result<W::Answer, LedgerError> {
        let (tell, answer) = oneshot::channel();
        let ended = || LedgerError::Unavailable("the runtime that the ledger was opened in has ended".to_owned());
        self.queue.send((question, tell)).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

async fn serve<W: Work>(work: Arc<W>, lane: Arc<Lane>, gathered: Arc<Mutex<mpsc::UnboundedReceiver<Asked<W>>>>) {
    loop {
        let mut batch = Vec::new();
        {
            let mut gathered = gathered.lock().await;
            let Some(first) = gathered.recv().await else {
                return;
            };
            let (mut bytes, mut locks) = (W::bytes(&first.0), W::locks(&first.0));
            batch.push(first);
            while batch.len() < MAX_QUESTIONS && bytes < MAX_BYTES && locks < MAX_LOCKS {
                let Ok(next) = gathered.try_recv() else {
                    break;
                };
                bytes += W::bytes(&next.0);
                locks += W::locks(&next.0);
                batch.push(next);
            }
        }
        // Whoever has gone away needs no answer, but what it asked for may have to be done all the same.
        let answers = match lane.live().await {
            Ok(live) => {
                let questions: Vec<&W::Question> = batch.iter().map(|(question, _)| &**question).collect();
                work.run(&live, &questions).await
            }
            Err(error) => batch.iter().map(|_| Err(error.clone())).collect(),
        };
        for ((_, tell), answer) in batch.into_iter().zip(answers) {
            let _ = tell.send(answer);
        }
    }
}
