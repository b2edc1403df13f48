//! What is usually written by hand for the same purpose, on the same servers: a claim that only one can make, and the result.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio_postgres::{Client, NoTls, Statement};

use crate::error::BenchError;
use crate::guarded::{RESULT, Scope, arguments};
use crate::load::{Measured, closed_loop};

/// A server with its usual pattern.
#[derive(Clone)]
pub enum Peer {
    /// `INSERT … ON CONFLICT DO NOTHING`, then `INSERT … ON CONFLICT DO UPDATE` with the result; each commits by itself.
    Postgres(Arc<Vec<Postgres>>),
    /// `SET key … NX`, then `SET key` with the result.
    Redis(MultiplexedConnection),
}

/// A connection to PostgreSQL with its statements.
pub struct Postgres {
    client: Client,
    claim: Statement,
    finish: Statement,
}

/// More connections than this make PostgreSQL slower, not faster.
const CONNECTIONS: usize = 32;

/// The table of the pattern; it is dropped when [`Peer::clean_up`] is called.
const TABLE: &str = "settled_bench_pattern";

impl Peer {
    /// Of the server that a ledger's URL names; `None` if there is no usual pattern for such a ledger.
    ///
    /// # Errors
    /// If it can't be reached.
    pub async fn of(url: &str) -> Result<Option<Peer>, BenchError> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            Some("postgres" | "postgresql") => {
                let of_the_ledger = ["schema", "sslmode", "sslrootcert", "sslcert", "sslkey", "listen", "listen_url"];
                Peer::postgres(&without(url, &of_the_ledger)).await.map(Some)
            }
            Some("redis" | "rediss") => {
                let client = redis::Client::open(without(
                    url,
                    &["prefix", "patience", "connect_timeout", "wait", "wait_timeout", "trust", "ca", "cert", "key"],
                ))?;
                Ok(Some(Peer::Redis(client.get_multiplexed_async_connection().await?)))
            }
            _ => Ok(None),
        }
    }

    /// What it is, in a few words.
    pub fn name(&self) -> &'static str {
        match self {
            Peer::Postgres(_) => "INSERT … ON CONFLICT ×2",
            Peer::Redis(_) => "SET NX, SET",
        }
    }

    async fn postgres(url: &str) -> Result<Peer, BenchError> {
        let first = connect(url).await?;
        first
            .batch_execute(&format!(
                "CREATE TABLE IF NOT EXISTS {TABLE} (key text PRIMARY KEY, arguments bytea NOT NULL, result bytea)"
            ))
            .await?;
        let mut all = Vec::with_capacity(CONNECTIONS);
        all.push(prepared(first).await?);
        while all.len() < CONNECTIONS {
            all.push(prepared(connect(url).await?).await?);
        }
        Ok(Peer::Postgres(Arc::new(all)))
    }

    /// Calls by the pattern.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn calls(&self, callers: usize, span: Duration) -> Result<Measured, BenchError> {
        let scope = Scope::new();
        closed_loop(callers, span, |caller| {
            let (peer, scope) = (self.clone(), scope.clone());
            move |number| {
                let (peer, key) = (peer.clone(), scope.key(number));
                async move { peer.call(caller, &key?.to_string(), number).await }
            }
        })
        .await
    }

    async fn call(&self, caller: usize, key: &str, number: u64) -> Result<(), BenchError> {
        let arguments = &arguments(number)[..];
        match self {
            Peer::Postgres(all) => {
                let its = all.get(caller % all.len().max(1)).ok_or(BenchError::Ended("a list of connections"))?;
                if its.client.execute(&its.claim, &[&key, &arguments]).await? != 1 {
                    return Err(BenchError::Answer("a refusal".to_owned()));
                }
                its.client.execute(&its.finish, &[&key, &arguments, &RESULT]).await?;
            }
            Peer::Redis(connection) => {
                let mut connection = connection.clone();
                let mut claim = redis::cmd("SET");
                claim.arg(key).arg(arguments).arg("NX").arg("EX").arg(3_600);
                let claimed: Option<String> = claim.query_async(&mut connection).await?;
                if claimed.is_none() {
                    return Err(BenchError::Answer("a refusal".to_owned()));
                }
                let mut finish = redis::cmd("SET");
                finish.arg(key).arg(RESULT).arg("EX").arg(3_600);
                let _: () = finish.query_async(&mut connection).await?;
            }
        }
        Ok(())
    }

    /// Removes what it has made, as far as it does not go away by itself.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn clean_up(&self) -> Result<(), BenchError> {
        if let Peer::Postgres(all) = self
            && let Some(first) = all.first()
        {
            first.client.batch_execute(&format!("DROP TABLE IF EXISTS {TABLE}")).await?;
        }
        Ok(())
    }
}

/// A URL without the parameters that only the ledger knows.
fn without(url: &str, parameters: &[&str]) -> String {
    let Some((base, query)) = url.split_once('?') else {
        return url.to_owned();
    };
    let is_kept = |pair: &&str| !parameters.contains(&pair.split('=').next().unwrap_or_default());
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }
}

async fn connect(url: &str) -> Result<Client, BenchError> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends when the client is dropped; an error shows at the client's next call.
    tokio::spawn(connection);
    Ok(client)
}

async fn prepared(client: Client) -> Result<Postgres, BenchError> {
    let claim = format!("INSERT INTO {TABLE} (key, arguments) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    let finish = format!(
        "INSERT INTO {TABLE} (key, arguments, result) VALUES ($1, $2, $3) ON CONFLICT (key) DO UPDATE SET result = $3"
    );
    let (claim, finish) = (client.prepare(&claim).await?, client.prepare(&finish).await?);
    Ok(Postgres { client, claim, finish })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_ledger_knows_is_left_out() {
        let without = |url| without(url, &["schema", "listen"]);
        assert_eq!(without("postgres://a/b"), "postgres://a/b");
        assert_eq!(without("postgres://a/b?schema=x"), "postgres://a/b");
        assert_eq!(without("postgres://a/b?user=y&schema=x&listen"), "postgres://a/b?user=y");
    }
}
