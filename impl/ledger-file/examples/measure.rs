//! m
#![allow(clippy::unwrap_used)]
#[path = "../tests/suite/make.rs"]
mod make;
use bytes::Bytes;
use settled::*;
use settled_ledger_file::*;
use settled_protocol::State;
use std::sync::Arc;
use std::time::*;
fn rss() -> u64 {
    std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
async fn call(l: &Arc<dyn Ledger>, id: String) {
    let k = make::key("tenant", id);
    let mut c = make::claim(&k);
    c.asked = Some(Bytes::from(vec![b'a'; 100]));
    l.compare_and_set(c).await.unwrap();
    let mut c = make::change(&k, 2, make::settled());
    c.outcome = Some(Bytes::from(vec![b'r'; 100]));
    l.compare_and_set(c).await.unwrap();
}
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let dir = std::path::PathBuf::from(std::env::args().nth(1).unwrap());
    let _ = std::fs::remove_dir_all(&dir);
    for n in [1usize, 128] {
        let d = dir.join(format!("bare{n}"));
        let (mut log, _) = log::Log::open(Arc::new(log::disk::FsDisk::open(&d).unwrap()), log::LogOptions::default(), |_, _| Ok(())).unwrap();
        let f = vec![7u8; 250]; let fs: Vec<&[u8]> = vec![&f; n];
        let s = Instant::now(); let mut k = 0; while s.elapsed() < Duration::from_secs(2) { log.append(&fs).unwrap(); k += 1; }
        println!("bare batches of {n}: {:.0} syncs/s = ceiling {:.0} calls/s", k as f64/s.elapsed().as_secs_f64(), (k*n) as f64/2.0/s.elapsed().as_secs_f64());
    }
    let holder: Arc<dyn Ledger> = Arc::new(FileLedger::open(&dir, FileLedgerOptions::default()).unwrap());
    let guest: Arc<dyn Ledger> = Arc::new(FileLedger::open(&dir, FileLedgerOptions::default()).unwrap());
    for (name, l) in [("holder", &holder), ("guest", &guest)] {
        for callers in [1, 16, 128] {
            let s = Instant::now();
            let mut js = tokio::task::JoinSet::new();
            for c in 0..callers {
                let l = l.clone();
                js.spawn(async move {
                    let mut n = 0u64;
                    while s.elapsed() < Duration::from_secs(3) {
                        call(&l, format!("{name}-{callers}-{c}-{n:08}")).await;
                        n += 1
                    }
                    n
                });
            }
            let n: u64 = js.join_all().await.iter().sum();
            println!("{name} {callers}: {:.0} calls/s", n as f64 / s.elapsed().as_secs_f64());
        }
    }
    let k = make::key("tenant", "holder-1-0-00000001");
    let s = Instant::now();
    for _ in 0..100_000 {
        holder.get(&k).await.unwrap().unwrap();
    }
    println!("get {:.0}/s", 1e5 / s.elapsed().as_secs_f64());
    let s = Instant::now();
    for _ in 0..10_000 {
        guest.get(&k).await.unwrap().unwrap();
    }
    println!("guest get {:.0}/s", 1e4 / s.elapsed().as_secs_f64());
    // bulk
    let before: u64 = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    let s = Instant::now();
    let mut js = tokio::task::JoinSet::new();
    for c in 0..1024 {
        let l = holder.clone();
        js.spawn(async move {
            for n in 0..800 {
                call(&l, format!("bulk-{c:04}-{n:06}")).await;
            }
        });
    }
    js.join_all().await;
    let n = 1024 * 800;
    let after: u64 = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    println!("bulk {n}: {:.0} calls/s, {} bytes/call", n as f64 / s.elapsed().as_secs_f64(), (after - before) / n);
    drop(guest);
    drop(holder);
    let r0 = rss();
    let s = Instant::now();
    let l = FileLedger::open(&dir, FileLedgerOptions::default()).unwrap();
    let t = s.elapsed();
    println!("reopen {t:?}, rss +{}", rss() - r0);
    let s = Instant::now();
    let all = l.scan(Filter::All).await.unwrap().len();
    println!(
        "{all} keys, {:.2} M records/s recovered; scan {:?}",
        all as f64 * 2.0 / t.as_secs_f64() / 1e6,
        s.elapsed()
    );
    let _ = State::<u8>::Created;
}
