//! The server as a process, killed and stopped at random moments while devices upload.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Client;
use settled_protocol::merge::{HybridTime, OpId};
use settled_sync::server::{self, ServerOptions};
use settled_sync::store;
use settled_sync::wire::{Became, Cursor, Pulled, Sent, Uploaded};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use crate::common::{Place, check, history, options, upload, wall};

const STORE: &str = "SETTLED_SYNC_TEST_STORE";
const ANY: &str = "127.0.0.1:0";
const LISTEN: &str = "SETTLED_SYNC_TEST_LISTEN";
/// How many operations a device sends at once.
const PART: usize = 5;

/// Not a test: the process that is killed.
#[test]
#[ignore = "it is started by other tests"]
fn serve() {
    let (Ok(store), Ok(listen)) = (std::env::var(STORE), std::env::var(LISTEN)) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = store::open(&store, options()).await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(listen.parse().unwrap()).unwrap();
        let listener: TcpListener = socket.listen(64).unwrap();
        eprintln!("listening at {}", listener.local_addr().unwrap());
        server::serve(listener, store, ServerOptions::default(), std::future::pending()).await.unwrap();
    });
}

/// A server in a process of its own.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(place: &Place, listen: SocketAddr) -> Process {
        Process::run(Command::new(std::env::current_exe().unwrap()), place, listen)
    }

    /// One that can't write more than this to a file.
    fn start_limited(place: &Place, blocks: u32) -> Process {
        let mut shell = Command::new("bash");
        shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
        shell.arg(std::env::current_exe().unwrap());
        Process::run(shell, place, ANY.parse().unwrap())
    }

    fn run(mut command: Command, place: &Place, listen: SocketAddr) -> Process {
        command.args(["process::serve", "--exact", "--ignored", "--nocapture"]);
        command.env(STORE, &place.url).env(LISTEN, listen.to_string());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening at ") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the server did not start");
        }
        let address = line.split("listening at ").nth(1).unwrap().trim().parse().unwrap();
        // What else it says is not of interest, but has to go somewhere.
        std::thread::spawn(move || drop(std::io::copy(&mut said, &mut std::io::sink())));
        Process { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a device was told of each of its operations.
type Told = BTreeMap<OpId, (Cursor, HybridTime)>;

/// Uploads until everything is acknowledged, however often the server goes away.
async fn device(address: SocketAddr, name: String, made: Vec<Sent>, told: Arc<AtomicUsize>) -> Told {
    let client = Client::builder().timeout(Duration::from_secs(20)).build().unwrap();
    let mut known = Told::new();
    for part in made.chunks(PART) {
        let uploaded: Uploaded = loop {
            let request = client.post(format!("http://{address}/v1/operations")).json(&upload(&name, wall(), part));
            match request.send().await {
                Ok(answer) if answer.status() == 200 => match answer.json().await {
                    Ok(uploaded) => break uploaded,
                    Err(_) => continue,
                },
                Ok(answer) => assert!(answer.status() == 503, "{answer:?}"),
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        for answer in uploaded.answers {
            let Became::Applied { cursor, time, .. } = answer.is else { panic!("{answer:?}") };
            known.insert(answer.op_id, (cursor, time));
        }
        told.fetch_add(1, Ordering::Relaxed);
    }
    known
}

/// Devices upload while the server is killed this many times. Afterwards each operation has been applied once, everything that was
/// acknowledged is there as it was acknowledged, and the states are those of the operations.
pub async fn kills(place: &Place, kills: usize) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut random = fastrand::Rng::new();
    let mut process = Process::start(place, ANY.parse().unwrap());
    let (address, told) = (process.address, Arc::new(AtomicUsize::new(0)));
    let mut devices = JoinSet::new();
    // Each kill waits until something was acknowledged since the one before.
    let parts = 4 * (kills + 2);
    for name in ["a", "b"] {
        let made = history(&mut random, name, wall(), (parts * PART) as u64);
        devices.spawn(device(address, name.to_owned(), made, Arc::clone(&told)));
    }
    let total = 2 * parts;
    for _ in 0..kills {
        let before = told.load(Ordering::Relaxed);
        while told.load(Ordering::Relaxed) <= before && before < total {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_micros(random.u64(0..8_000))).await;
        process.child.kill().unwrap();
        process.child.wait().unwrap();
        process = Process::start(place, address);
    }
    let mut acknowledged = Told::new();
    while let Some(told) = devices.join_next().await {
        acknowledged.extend(told.unwrap());
    }
    drop(process);
    let applied = check(&*place.open().await).await;
    assert_eq!(applied.len(), total * PART);
    for applied in &applied {
        let (cursor, time) = acknowledged[&applied.operation.op_id];
        assert_eq!((applied.cursor, applied.operation.time), (cursor, time));
    }
    assert_eq!(acknowledged.len(), applied.len());
}

/// A server that is stopped (SIGSTOP) in the middle of its work does not keep another one on the same store from working for good, and
/// does no harm when it goes on. Without another one, its devices wait.
pub async fn stopped(place: &Place, several: bool) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut random = fastrand::Rng::new();
    let one = Process::start(place, ANY.parse().unwrap());
    let two = several.then(|| Process::start(place, ANY.parse().unwrap()));
    let told = Arc::new(AtomicUsize::new(0));
    let (a, b) = (history(&mut random, "a", wall(), 100), history(&mut random, "b", wall(), 100));
    let slow = tokio::spawn(device(one.address, "a".to_owned(), a, Arc::clone(&told)));
    while told.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_micros(random.u64(0..5_000))).await;
    one.signal(Signal::SIGSTOP);
    match &two {
        Some(two) => drop(device(two.address, "b".to_owned(), b, Arc::default()).await),
        None => tokio::time::sleep(Duration::from_millis(100)).await,
    }
    one.signal(Signal::SIGCONT);
    slow.await.unwrap();
    let all = if several { 200 } else { 100 };
    drop((one, two));
    assert_eq!(check(&*place.open().await).await.len(), all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_stopped_on_sqlite() {
    kills(&Place::sqlite(), 20).await;
    stopped(&Place::sqlite(), false).await;
}

/// When no more can be written, nothing is acknowledged any more, what was acknowledged is kept and can be read, and with room it goes on.
#[tokio::test]
async fn no_room() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let place = Place::sqlite();
    let made = history(&mut fastrand::Rng::with_seed(1), "a", wall(), 600);
    let process = Process::start_limited(&place, 200);
    let client = Client::new();
    let mut acknowledged = 0;
    for part in made.chunks(PART) {
        let request = client.post(format!("http://{}/v1/operations", process.address));
        let answer = request.json(&upload("a", wall(), part)).send().await.unwrap();
        if answer.status() != 200 {
            assert_eq!((answer.status().as_u16(), answer.headers().contains_key("retry-after")), (503, true));
            break;
        }
        acknowledged = answer.json::<Uploaded>().await.unwrap().head;
    }
    assert!((1..600).contains(&acknowledged), "the limit was not reached");
    let all: Pulled =
        client.get(format!("http://{}/v1/operations", process.address)).send().await.unwrap().json().await.unwrap();
    assert_eq!(all.head, acknowledged);
    drop(process);
    let store = place.open().await;
    assert_eq!(check(&*store).await.len() as u64, acknowledged);
    for part in made.chunks(PART) {
        store.apply(upload("a", wall(), part), wall()).await.unwrap();
    }
    assert_eq!(check(&*store).await.len(), made.len());
}
