//! What server this is: whether it can be written to, and what it promises.

use settled::Promise;
use tokio_postgres::{Client, Row};

use crate::error::text;

/// The oldest version whose statements are used.
const OLDEST: i32 = 120_000;

async fn one(client: &Client, sql: &str) -> Result<Row, String> {
    client.query_typed_one(sql, &[]).await.map_err(|e| text(&e))
}

/// Refuses a server that can't be written to. Asked on every new connection: after a failover the same address may be another
/// server's.
pub(crate) async fn check(client: &Client) -> Result<(), String> {
    let sql = "SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', \
               current_setting('server_version_num')::integer, current_setting('transaction_isolation') <> 'read committed'";
    let row = one(client, sql).await?;
    let get = |i| row.try_get::<_, bool>(i).map_err(|e| text(&e));
    if get(0)? {
        return Err("this server is a standby, which can't be written to: name the primary".to_owned());
    }
    if get(1)? {
        return Err(
            "this server, or this role on it, only allows reading (default_transaction_read_only is on)".to_owned()
        );
    }
    if get(3)? {
        return Err(
            "this role's transactions don't see what is committed meanwhile: ALTER ROLE … SET default_transaction_isolation = \
             'read committed'"
                .to_owned(),
        );
    }
    let version: i32 = row.try_get(2).map_err(|e| text(&e))?;
    if version < OLDEST {
        return Err(format!("PostgreSQL {} is too old: use version {} or newer", version / 10_000, OLDEST / 10_000));
    }
    Ok(())
}

/// What the server promises of commits that wait for its disk, as all of the ledger's do. Warns where that is little.
pub(crate) async fn promise(client: &Client) -> Result<Promise, String> {
    let sql = "SELECT current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', \
               current_setting('synchronous_commit'), current_setting('synchronous_standby_names') <> '', \
               (SELECT count(*) FROM pg_stat_replication)";
    let row = one(client, sql).await?;
    let on = |i| row.try_get::<_, bool>(i).map_err(|e| text(&e));
    let default: String = row.try_get(2).map_err(|e| text(&e))?;
    let standbys: i64 = row.try_get(4).map_err(|e| text(&e))?;
    if matches!(&*default, "off" | "local" | "remote_write") {
        tracing::warn!(
            synchronous_commit = default,
            "commits don't wait for the disk by default on this server; the ledger's own commits do"
        );
    }
    if !on(1)? {
        tracing::warn!("full_page_writes is off: only safe on a file system that never tears a page");
    }
    if standbys > 0 && !on(3)? {
        tracing::warn!(
            standbys,
            "this server is replicated asynchronously: a failover may lose what was acknowledged, and a lost record of a call \
             lets it happen twice; set synchronous_standby_names"
        );
    }
    if !on(0)? {
        let reason =
            "the PostgreSQL server runs with fsync = off: a crash of its machine can lose what was acknowledged";
        tracing::warn!("{reason}");
        return Ok(Promise::MayBeLost(reason.to_owned()));
    }
    Ok(Promise::Kept)
}
