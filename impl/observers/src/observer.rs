//! One way to ask, and how to read its answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::command::Command;
use crate::error::{AskError, Unusable};
use crate::given::Given;
use crate::http::{Http, OpenHttp};
use crate::sql::{OpenSql, Sql};
use crate::verdict::{Evidence, Reading, Verdict};

/// How many questions are put to one observer at once: after an outage there may be thousands.
const AT_ONCE: usize = 8;

/// A way to ask, as declared.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// An HTTP GET.
    Http(Http),
    /// One SQL statement.
    Sql(Sql),
    /// A command.
    Command(Command),
}

impl Way {
    /// Whether this placeholder (such as `$key`) is in it; of an empty name: any.
    pub fn uses(&self, name: &str) -> bool {
        match self {
            Way::Http(http) => http.uses(name),
            Way::Sql(sql) => sql.uses(name),
            Way::Command(command) => command.uses(name),
        }
    }
}

#[derive(Clone, Debug)]
enum Open {
    Http(OpenHttp),
    Sql(Box<OpenSql>),
    Command(Command),
}

/// An observer, ready to be asked.
#[derive(Clone, Debug)]
pub struct Observer {
    way: Open,
    reading: Reading,
    within: Duration,
    turns: Arc<Semaphore>,
}

impl Observer {
    /// Gets an observer ready: secrets are looked up now. `within`: how long one answer may take.
    ///
    /// # Errors
    /// [`Unusable`], if a secret is not there or can't be used.
    pub fn open(way: &Way, reading: Reading, within: Duration) -> Result<Observer, Unusable> {
        let way = match way {
            Way::Http(http) => Open::Http(http.open()?),
            Way::Sql(sql) => Open::Sql(Box::new(sql.open()?)),
            Way::Command(command) => Open::Command(command.clone()),
        };
        Ok(Observer { way, reading, within, turns: Arc::new(Semaphore::new(AT_ONCE)) })
    }

    /// Asks. What can't be found out is [`Verdict::Unclear`], with the reason.
    pub async fn ask(&self, given: &Given<'_>) -> Verdict {
        match self.evidence(given).await {
            Ok(evidence) => self.reading.read(&evidence),
            Err(error) => Verdict::Unclear(error.to_string()),
        }
    }

    async fn evidence(&self, given: &Given<'_>) -> Result<Evidence, AskError> {
        let _turn = self.turns.acquire().await;
        let asking = async {
            match &self.way {
                Open::Http(http) => http.ask(given).await,
                Open::Sql(sql) => sql.ask(given, self.within).await,
                Open::Command(command) => command.ask(given).await,
            }
        };
        tokio::time::timeout(self.within, asking).await.unwrap_or(Err(AskError::TimedOut(self.within)))
    }
}
