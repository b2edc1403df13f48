//! Calls to the server: bounded in time, repeated where that can do no harm, and with an answer that says what is known.

use std::sync::atomic::Ordering;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, RedisResult, Script, ScriptInvocation, Value};
use settled::{LedgerError, fault};
use tokio::time::{Instant, timeout_at};

use crate::entry::corrupt;
use crate::failure::{self, Meaning};
use crate::link::Link;
use crate::options::Wait;

/// Whether a call may be made again when it is not known whether the server has carried it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It may.
    Safe,
    /// Never: the second time could refuse what the first time has done.
    Unsafe,
}

/// What a script answers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) says: String,
    pub(crate) rest: Vec<Value>,
}

/// What to ask the server.
pub(crate) enum Ask<'a> {
    Command(redis::Cmd),
    Script(ScriptInvocation<'a>),
}

impl Ask<'_> {
    /// Asks once, over this connection.
    pub(crate) async fn once(&self, connection: &mut MultiplexedConnection) -> RedisResult<Value> {
        match self {
            Ask::Command(command) => command.query_async(connection).await,
            Ask::Script(script) => script.invoke_async(connection).await,
        }
    }
}

impl Link {
    /// Asks over the connection, within the patience.
    async fn ask(&self, ask: Ask<'_>, repeat: Repeat) -> Result<Value, LedgerError> {
        let deadline = Instant::now() + self.options.patience;
        loop {
            let connected = self.connected(deadline).await?;
            let mut connection = connected.connection.clone();
            let error = match timeout_at(deadline, ask.once(&mut connection)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => error,
                Err(_) => {
                    self.drop_connection(&connected);
                    return Err(self.unavailable(&format!("no answer within {:?}", self.options.patience)));
                }
            };
            let meaning = failure::meaning(&error);
            if matches!(meaning, Meaning::Elsewhere | Meaning::Lost) {
                self.drop_connection(&connected);
            }
            let again = match meaning {
                Meaning::NotNow | Meaning::Elsewhere => true,
                Meaning::Lost => repeat == Repeat::Safe,
                Meaning::Refused => false,
            };
            if again {
                self.breathe(deadline).await;
            }
            if !again || Instant::now() >= deadline {
                return Err(self.failed(&error));
            }
        }
    }

    /// The answer to a command that changes nothing.
    pub(crate) async fn command<T: FromRedisValue>(&self, command: redis::Cmd) -> Result<T, LedgerError> {
        let answer = self.ask(Ask::Command(command), Repeat::Safe).await?;
        redis::from_redis_value(answer).map_err(|error| corrupt(&error))
    }

    /// A call of one of the scripts that begin with the check of the ledger's data.
    pub(crate) fn script<'a>(&self, script: &'a Script) -> ScriptInvocation<'a> {
        let mut call = script.key(self.names.ledger());
        call.arg(self.incarnation()).arg(self.known());
        call
    }

    /// Runs a script.
    pub(crate) async fn run(&self, call: ScriptInvocation<'_>, repeat: Repeat) -> Result<Answer, LedgerError> {
        self.understood(self.ask(Ask::Script(call), repeat).await?)
    }

    /// Runs a script that changes what must not be lost, and waits for the replicas that must have it.
    pub(crate) async fn write(&self, call: ScriptInvocation<'_>) -> Result<Answer, LedgerError> {
        fault::point("before-script");
        let answer = match self.options.wait {
            None => self.run(call, Repeat::Unsafe).await,
            Some(wait) => self.write_and_wait(Ask::Script(call), wait).await,
        };
        fault::point("after-script");
        answer
    }

    async fn write_and_wait(&self, ask: Ask<'_>, wait: Wait) -> Result<Answer, LedgerError> {
        let deadline = Instant::now() + self.options.patience + wait.timeout;
        let connected = self.connected(deadline).await?;
        let mut connection = connected.connection.clone();
        let both = async {
            let answer = ask.once(&mut connection).await?;
            // By this connection and no other: another one would know nothing of this store.
            Ok((answer, connected.replicas.acknowledged(&connected.connection, wait).await?))
        };
        let error = match timeout_at(deadline, both).await {
            Ok(Ok((answer, acknowledged))) => {
                let answer = self.understood(answer)?;
                if acknowledged < wait.replicas && answer.says != "refused" {
                    self.doubts.fetch_add(1, Ordering::AcqRel);
                    return Err(self.unavailable(&format!(
                        "it is stored, but only {acknowledged} of {} replicas have acknowledged it within {:?}: a failover may \
                         lose it",
                        wait.replicas, wait.timeout
                    )));
                }
                return Ok(answer);
            }
            Ok(Err(error)) => self.failed(&error),
            Err(_) => self.unavailable(&format!("no answer within {:?}", self.options.patience + wait.timeout)),
        };
        self.doubts.fetch_add(1, Ordering::AcqRel);
        self.drop_connection(&connected);
        Err(error)
    }

    /// Reads return only what is durable: after a store that too few replicas have acknowledged they wait until a later write is
    /// acknowledged, and so everything before it.
    pub(crate) async fn without_doubt(&self) -> Result<(), LedgerError> {
        let doubts = self.doubts.load(Ordering::Acquire);
        let Some(wait) = self.options.wait.filter(|_| doubts > self.cleared.load(Ordering::Acquire)) else {
            return Ok(());
        };
        let deadline = Instant::now() + self.options.patience + wait.timeout;
        let connected = self.connected(deadline).await?;
        let mut connection = connected.connection.clone();
        let probe = async {
            let () = redis::cmd("SET").arg(self.names.probe()).arg(1).query_async(&mut connection).await?;
            connected.replicas.acknowledged(&connected.connection, wait).await
        };
        match timeout_at(deadline, probe).await {
            Ok(Ok(acknowledged)) if acknowledged >= wait.replicas => {
                self.cleared.fetch_max(doubts, Ordering::AcqRel);
                Ok(())
            }
            Ok(Ok(acknowledged)) => Err(self.unavailable(&format!(
                "only {acknowledged} of {} replicas follow: what is stored may be lost by a failover",
                wait.replicas
            ))),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(self.unavailable(&format!("no answer within {:?}", self.options.patience + wait.timeout))),
        }
    }

    /// Takes from a script's answer what it says of the ledger's data.
    fn understood(&self, answer: Value) -> Result<Answer, LedgerError> {
        let Value::Array(answer) = answer else { return Err(corrupt(&"a script's answer is no list")) };
        let mut answer = answer.into_iter();
        let mut text = || answer.next().and_then(|value| redis::from_redis_value::<String>(value).ok());
        let (says, changes) = (text().unwrap_or_default(), text().and_then(|changes| changes.parse().ok()));
        let changes = changes.ok_or_else(|| corrupt(&"an answer without the count of changes"))?;
        match says.as_str() {
            "replaced" => return Err(self.replaced()),
            "older" => return Err(self.older(changes)),
            "damaged" => return Err(corrupt(&"one of its keys is damaged")),
            _ => self.saw(changes),
        }
        Ok(Answer { says, rest: answer.collect() })
    }

    /// An error of the server's or the connection's as the ledger's.
    fn failed(&self, error: &RedisError) -> LedgerError {
        self.unavailable(&failure::text(error))
    }
}

/// An answer that no script gives.
pub(crate) fn unexpected<T>(answer: &Answer) -> Result<T, LedgerError> {
    Err(corrupt(&format!("a script answered `{}`", answer.says)))
}
