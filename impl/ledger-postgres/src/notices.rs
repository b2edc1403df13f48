//! LISTEN and NOTIFY: hearing of what other processes have stored, sooner than by looking.
//!
//! A notification is sent right after the commit, not with it: PostgreSQL lets only one transaction that notifies commit at a
//! time, for the whole server, and would make every process wait for every other one's disk. One that is lost with its process
//! costs its waiters a second: they look from time to time in any case.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;

use crate::error::text;
use crate::lane::{Lane, backoff};
use crate::target::{Listen, Target};
use crate::waiters::{Name, Waiters};

/// Names in one notification; a payload has less than 8,000 bytes.
const MOST: usize = 400;
/// Digits of a name.
const DIGITS: usize = 16;
/// How long a notification may take that one sends to oneself.
const ECHO: Duration = Duration::from_secs(2);
/// How many of them may fail to arrive, one after the other.
const ECHOES: u32 = 5;
/// A payload that no name makes.
const ECHO_PAYLOAD: &str = "echo";

fn channel(schema: &str) -> String {
    // A name of the server's has at most 63 bytes.
    let digest = settled_protocol::Digest::of(schema.as_bytes()).to_string();
    format!("settled_{}", digest.get(..DIGITS).unwrap_or_default())
}

/// Tells other processes what this one has stored. Ends when nobody can store any more.
pub(crate) async fn tell(lane: Arc<Lane>, schema: Arc<str>, mut names: mpsc::UnboundedReceiver<Name>) {
    let channel = channel(&schema);
    let mut batch = Vec::new();
    while names.recv_many(&mut batch, MOST).await > 0 {
        batch.sort_unstable();
        batch.dedup();
        let payload: String = batch.drain(..).map(|name| format!("{name:016x}")).collect();
        let told = lane.ask(async |live| {
            let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                [(&channel, Type::TEXT), (&payload, Type::TEXT)];
            live.client.query_typed("SELECT pg_notify($1, $2)", &parameters).await
        });
        if let Err(error) = told.await {
            tracing::debug!(%error, "other processes could not be told of what was stored");
        }
    }
}

/// Listens for what other processes tell; ends with the ledger, or at once where that doesn't work.
pub(crate) struct Listener(JoinHandle<()>);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why listening ended.
enum Ended {
    /// There is no way to listen here.
    NotHere(String),
    Lost(String),
}

impl Listener {
    pub fn start(target: &Target, waiters: Arc<Waiters>) -> Listener {
        let place = match &target.listen {
            Listen::Off => None,
            Listen::Auto => Some(target.clone()),
            Listen::At(there) => Some((**there).clone()),
        };
        Listener(tokio::spawn(async move {
            let Some(place) = place else {
                return;
            };
            let mut failures = 0;
            loop {
                match listen(&place, &waiters, &mut failures).await {
                    Ended::NotHere(why) => {
                        tracing::info!(
                            reason = %why,
                            "no notifications of other processes' changes: this one looks for them every second; \
                             listen_url can name the server itself, past a pool"
                        );
                        return;
                    }
                    Ended::Lost(why) => tracing::debug!(reason = %why, "notifications are interrupted"),
                }
                waiters.wake_all();
                sleep(backoff(failures)).await;
                failures += 1;
            }
        }))
    }
}

async fn listen(target: &Target, waiters: &Waiters, failures: &mut u32) -> Ended {
    let lost = |e: tokio_postgres::Error| Ended::Lost(text(&e));
    // A session of one's own keeps a setting that is made when it begins. A pool that gives every transaction another session
    // refuses the setting, or drops it.
    let mark = format!("{:016x}", fastrand::u64(..));
    let mut config = target.config.clone();
    let options = config.get_options().map(|set| format!("{set} ")).unwrap_or_default();
    config.options(format!("{options}-c settled.session={mark}"));
    let connecting = timeout(target.options.connect_timeout, config.connect(target.tls.clone()));
    let (client, mut wire) = match connecting.await {
        Ok(Ok(made)) => made,
        Ok(Err(error)) if is_of_a_pool(&error) => return Ended::NotHere(text(&error)),
        Ok(Err(error)) => return lost(error),
        Err(_) => return Ended::Lost("no connection was made in time".to_owned()),
    };
    let (heard, mut payloads) = mpsc::unbounded_channel();
    let drive = async {
        loop {
            match poll_fn(|context| wire.poll_message(context)).await {
                Some(Ok(AsyncMessage::Notification(notice))) => {
                    let _ = heard.send(notice.payload().to_owned());
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return lost(error),
                None => return Ended::Lost("it was closed".to_owned()),
            }
        }
    };
    let hear = async {
        let begun = timeout(target.options.timeout, async {
            let sql = "SELECT coalesce(current_setting('settled.session', true), '') = $1";
            let own: bool =
                client.query_typed_one(sql, &[(&mark, Type::TEXT)]).await.map_err(lost)?.try_get(0).map_err(lost)?;
            if !own {
                return Err(Ended::NotHere("a pool gives each transaction another session".to_owned()));
            }
            let channel = channel(&target.schema);
            client.batch_execute(&format!("LISTEN {channel}; NOTIFY {channel}, '{ECHO_PAYLOAD}'")).await.map_err(lost)
        });
        match begun.await {
            Ok(Ok(())) => {}
            Ok(Err(ended)) => return ended,
            Err(_) => return Ended::Lost("the server gave no answer".to_owned()),
        }
        match timeout(ECHO, payloads.recv()).await {
            Ok(Some(_)) => {}
            _ if *failures >= ECHOES => return Ended::NotHere("its notifications to itself don't arrive".to_owned()),
            _ => return Ended::Lost("a notification to itself did not arrive".to_owned()),
        }
        *failures = 0;
        // From here on nothing is missed; before, something may have been.
        waiters.wake_all();
        while let Some(payload) = payloads.recv().await {
            names(&payload).for_each(|name| waiters.wake(name));
        }
        Ended::Lost("it was closed".to_owned())
    };
    tokio::select! {
        ended = hear => ended,
        ended = drive => ended,
    }
}

/// Pools that don't know a setting refuse it as a violation of the protocol, or as not supported.
fn is_of_a_pool(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code().starts_with("08") || code.code() == "0A000")
}

fn names(payload: &str) -> impl Iterator<Item = Name> {
    let digits = payload.as_bytes().chunks_exact(DIGITS);
    digits.filter_map(|digits| Name::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
}
