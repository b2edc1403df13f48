//! How much it carries, beside the bare statement. Run by hand: `cargo test --release --test postgres load -- --ignored --nocapture`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use settled::Ledger;
use settled_ledger_postgres::{PostgresLedger, PostgresOptions};

use crate::support::*;

const FOR: Duration = Duration::from_secs(3);

async fn rate<F>(callers: usize, call: impl Fn(usize) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let started = Instant::now();
    let callers: Vec<_> = (0..callers).map(&call).map(tokio::spawn).collect();
    tokio::time::sleep(FOR).await;
    callers.iter().for_each(tokio::task::JoinHandle::abort);
    started.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn compare_and_sets_beside_the_bare_insert() {
    let server = server();
    server.sql("CREATE TABLE bare (k text PRIMARY KEY, v text); GRANT ALL ON bare TO settled").unwrap();
    for callers in [1, 16, 128] {
        let done = Arc::new(AtomicUsize::new(0));
        let mut clients = Vec::new();
        for _ in 0..callers {
            let config: tokio_postgres::Config = server.url().parse().unwrap();
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            clients.push(Arc::new(client));
        }
        let took = rate(callers, |name| {
            let (client, done) = (clients[name].clone(), done.clone());
            async move {
                let insert = client.prepare("INSERT INTO bare VALUES ($1, $2) ON CONFLICT DO NOTHING").await.unwrap();
                for i in 0.. {
                    client.execute(&insert, &[&format!("{callers}-{name}-{i}"), &"{}"]).await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
        .await;
        println!("{callers:>4} callers: bare insert      {:>8.0}/s", done.load(Ordering::Relaxed) as f64 / took);
        drop(clients);
        for writers in [1, 2, 4, 8] {
            let mut options = PostgresOptions::default();
            options.writers = writers;
            let ledger = Arc::new(PostgresLedger::connect(&server.url(), options).await.unwrap());
            let by = ledger.register(600 * SECOND).await.unwrap();
            let done = Arc::new(AtomicUsize::new(0));
            let took = rate(callers, |name| {
                let (ledger, done) = (ledger.clone(), done.clone());
                async move {
                    for i in 0.. {
                        let key = key(format!("{callers}-{writers}-{name}-{i}"));
                        ledger.compare_and_set(claim(key, by)).await.unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
            .await;
            println!(
                "{callers:>4} callers: claims, {writers} writer(s) {:>6.0}/s",
                done.load(Ordering::Relaxed) as f64 / took
            );
        }
        let ledger = shared(&server.url()).await;
        let by = ledger.register(600 * SECOND).await.unwrap();
        whole(&ledger, key("read"), by).await;
        let done = Arc::new(AtomicUsize::new(0));
        let took = rate(callers, |_| {
            let (ledger, done) = (ledger.clone(), done.clone());
            async move {
                loop {
                    ledger.get(&key("read")).await.unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
        .await;
        println!("{callers:>4} callers: reads            {:>8.0}/s", done.load(Ordering::Relaxed) as f64 / took);
    }
}
