//! Observers as the engine asks them.

use bytes::Bytes;
use settled::{Question, Seen};
use settled_protocol::SealScope;

use crate::given::Given;
use crate::observer::Observer;
use crate::verdict::Verdict;

impl Observer {
    /// Asks what became of an attempt, for [`Tool::observe`](settled::Tool::observe). `key`: what was sent as the operation's
    /// key. The question's arguments must be a JSON object.
    pub async fn observe(&self, question: &Question, key: &str) -> Seen {
        self.see(question, key, None).await
    }

    /// Asks to seal attempts, for [`Tool::seal`](settled::Tool::seal).
    pub async fn seal(&self, question: &Question, key: &str, scope: SealScope) -> Seen {
        self.see(question, key, Some(scope)).await
    }

    async fn see(&self, question: &Question, key: &str, scope: Option<SealScope>) -> Seen {
        let attempt = question.attempt.attempt.get();
        let verdict = match str::from_utf8(&question.arguments) {
            Ok(arguments) => self.ask(&Given { key, attempt, scope, arguments }).await,
            Err(_) => Verdict::Unclear("the call's arguments are not text".to_owned()),
        };
        verdict.seen(question, |observed| observed.to_string().into())
    }
}

impl Verdict {
    /// The verdict for the engine, and in the log. `body`: what the caller is told, of what was observed.
    pub fn seen(self, question: &Question, body: impl FnOnce(&serde_json::Value) -> Bytes) -> Seen {
        let (key, attempt) = (&question.key, question.attempt.attempt.get());
        match self {
            Verdict::Applied(observed) => {
                tracing::info!(%key, attempt, "found out: the call took effect");
                Seen::Applied(body(&observed))
            }
            Verdict::NotApplied => {
                tracing::info!(%key, attempt, "found out: no effect of the call is to be seen");
                Seen::NotApplied
            }
            Verdict::Sealed => {
                tracing::info!(%key, attempt, "found out: the call took no effect, and never will");
                Seen::Sealed
            }
            Verdict::Unclear(reason) => {
                tracing::warn!(%key, attempt, reason, "could not find out whether the call took effect");
                Seen::Unclear
            }
        }
    }
}
