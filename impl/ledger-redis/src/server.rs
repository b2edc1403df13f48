//! What kind of server it is, and what its acknowledgements are worth (rule 8).

use std::collections::HashMap;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;
use settled::Promise;

/// What the server says of itself. `None`: it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    info: HashMap<String, String>,
    /// When the append-only file is synced.
    sync: Option<String>,
    /// Whether that pauses while a snapshot is being written.
    pause: Option<String>,
}

impl Server {
    /// Asks the server.
    pub(crate) async fn ask(connection: &mut MultiplexedConnection) -> RedisResult<Server> {
        let info: RedisResult<String> = redis::cmd("INFO").query_async(connection).await;
        let info = denied(info)?.unwrap_or_default();
        let info = info.lines().filter_map(|line| line.split_once(':'));
        let info = info.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
        let sync = setting(connection, "appendfsync").await?;
        let pause = setting(connection, "no-appendfsync-on-rewrite").await?;
        Ok(Server { info, sync, pause })
    }

    fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// Whether it is a replica, which can store nothing.
    pub(crate) fn is_replica(&self) -> bool {
        self.info("role") == Some("slave")
    }

    /// What it can promise.
    pub(crate) fn promise(&self) -> Promise {
        match self.doubt() {
            Some(why) => Promise::MayBeLost(why),
            None => Promise::Kept,
        }
    }

    fn doubt(&self) -> Option<String> {
        let replicas: u32 = self.info("connected_slaves").and_then(|n| n.parse().ok()).unwrap_or(0);
        if replicas > 0 {
            return Some("asynchronous replication: a failover may lose acknowledged claims".to_owned());
        }
        if self.info("cluster_enabled") == Some("1") {
            return Some("it is a node of a cluster: a failover may lose acknowledged claims".to_owned());
        }
        match self.info("aof_enabled") {
            Some("1") => {}
            Some(_) => return Some("appendonly is off: a crash loses what is not in the last snapshot".to_owned()),
            None => return Some("its settings can't be checked: it does not answer INFO".to_owned()),
        }
        match self.sync.as_deref() {
            Some("always") => {}
            Some(other) => {
                return Some(format!(
                    "appendfsync is `{other}`, not `always`: a crash may lose the latest acknowledged claims"
                ));
            }
            None => return Some("its settings can't be checked: it does not allow CONFIG GET".to_owned()),
        }
        if self.pause.as_deref() != Some("no") {
            return Some(
                "no-appendfsync-on-rewrite is on: a crash during a rewrite may lose acknowledged claims".to_owned(),
            );
        }
        match self.info("maxmemory_policy") {
            Some("noeviction") => None,
            Some(other) => Some(format!("maxmemory-policy is `{other}`, not `noeviction`: records may be evicted")),
            None => Some("its settings can't be checked: it does not tell its maxmemory-policy".to_owned()),
        }
    }
}

/// What a server says that does not allow the question: nothing.
fn denied<T>(answer: RedisResult<T>) -> RedisResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if matches!(error.code(), Some("NOPERM" | "ERR")) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn setting(connection: &mut MultiplexedConnection, name: &str) -> RedisResult<Option<String>> {
    let answer = redis::cmd("CONFIG").arg("GET").arg(name).query_async(connection).await;
    let answer: Option<HashMap<String, String>> = denied(answer)?;
    Ok(answer.and_then(|mut answer| answer.remove(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(change: &[(&str, &str)], sync: Option<&str>, pause: Option<&str>) -> Promise {
        let right = [
            ("role", "master"),
            ("connected_slaves", "0"),
            ("cluster_enabled", "0"),
            ("aof_enabled", "1"),
            ("maxmemory_policy", "noeviction"),
        ];
        let info = right.iter().chain(change).map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Server { info, sync: sync.map(str::to_owned), pause: pause.map(str::to_owned) }.promise()
    }

    #[test]
    fn only_one_way_of_running_it_keeps_everything() {
        assert_eq!(server(&[], Some("always"), Some("no")), Promise::Kept);
        for (change, sync, pause, why) in [
            (&[("connected_slaves", "1")][..], Some("always"), Some("no"), "asynchronous replication"),
            (&[("cluster_enabled", "1")], Some("always"), Some("no"), "a cluster"),
            (&[("aof_enabled", "0")], Some("always"), Some("no"), "appendonly is off"),
            (&[("maxmemory_policy", "volatile-lru")], Some("always"), Some("no"), "may be evicted"),
            (&[], Some("everysec"), Some("no"), "appendfsync is `everysec`"),
            (&[], Some("always"), Some("yes"), "no-appendfsync-on-rewrite"),
            (&[], None, Some("no"), "CONFIG GET"),
        ] {
            let promise = server(change, sync, pause);
            assert!(matches!(&promise, Promise::MayBeLost(reason) if reason.contains(why)), "{promise:?}");
        }
        assert!(matches!(Server::default().promise(), Promise::MayBeLost(why) if why.contains("INFO")));
    }
}
