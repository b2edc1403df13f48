//! Any faults in any order, before a server that deduplicates by the key: the operation happens at most once, and what its
//! caller is told is true, also of what is still under way then.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use proptest::prelude::*;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};
use settled_http::problem::Problem;
use settled_http::{Answer, Client, ClientOptions, Rejections};
use tokio::net::TcpSocket;

use super::options;

/// What becomes of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is carried out, or answered as before.
    None,
    /// There is no connection.
    Refused,
    /// It never arrives.
    RequestLost,
    /// It arrives, and its answer is lost.
    AnswerLost,
    /// It arrives after everything else, perhaps when the caller has long been told.
    Late,
    /// A 429, from before the server looks at the key.
    Busy,
    /// The guard's ledger is not available.
    Unavailable,
    /// A 500 after the effect.
    ErrorAfter,
    /// A 502 of something in between, and the request never arrives.
    ErrorBefore,
    /// The guard says that the outcome is unknown, after the effect.
    Unknown,
    /// It is being carried out: a copy of it comes later.
    InProgress,
    /// The server rejects it, if it is the first to arrive.
    Rejected,
    /// A redirect, from before the server.
    Redirect,
}

const FAULTS: [Fault; 13] = [
    Fault::None,
    Fault::Refused,
    Fault::RequestLost,
    Fault::AnswerLost,
    Fault::Late,
    Fault::Busy,
    Fault::Unavailable,
    Fault::ErrorAfter,
    Fault::ErrorBefore,
    Fault::Unknown,
    Fault::InProgress,
    Fault::Rejected,
    Fault::Redirect,
];

/// What the server keeps of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Done,
    Rejected,
}

/// A server that deduplicates, and the faults before it.
#[derive(Debug)]
struct World {
    script: Vec<Fault>,
    rejections: Rejections,
    kept: HashMap<String, Kept>,
    effects: u32,
    attempts: usize,
    late: Vec<String>,
    /// Where nobody listens.
    nowhere: SocketAddr,
}

impl World {
    fn arrives(&mut self, key: &str, rejects: bool) -> Kept {
        if let Some(kept) = self.kept.get(key) {
            return *kept;
        }
        let kept = if rejects { Kept::Rejected } else { Kept::Done };
        if !rejects || self.rejections == Rejections::ProveNothing {
            self.effects += 1;
        }
        // Where rejections are final and no more than that, the key is as good as new.
        if !rejects || self.rejections != Rejections::AreFinal {
            self.kept.insert(key.to_owned(), kept);
        }
        kept
    }

    fn all_have_arrived(&mut self) {
        for key in std::mem::take(&mut self.late) {
            self.arrives(&key, false);
        }
    }
}

struct Wire(Arc<Mutex<World>>);

fn answer(status: u16, retry_after: bool) -> Response {
    let mut response = http::Response::builder().status(status);
    if retry_after {
        response = response.header("retry-after", "0");
    }
    Response::from(response.body("").unwrap())
}

fn of(kept: Kept) -> Response {
    answer(if kept == Kept::Done { 201 } else { 402 }, false)
}

fn own(problem: Problem<'_>) -> Response {
    let mut response = problem.response();
    response.headers_mut().remove("retry-after");
    Response::from(response)
}

#[async_trait]
impl Middleware for Wire {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        let key = request.headers()["idempotency-key"].to_str().unwrap().to_owned();
        let lost = || Err(reqwest_middleware::Error::middleware(std::io::Error::other("reset")));
        let nowhere = {
            let mut world = self.0.lock().unwrap();
            let fault = world.script.get(world.attempts).copied().unwrap_or(Fault::None);
            world.attempts += 1;
            match fault {
                Fault::None => return Ok(of(world.arrives(&key, false))),
                Fault::Refused => world.nowhere,
                Fault::RequestLost => return lost(),
                Fault::AnswerLost => {
                    world.arrives(&key, false);
                    return lost();
                }
                Fault::Late => {
                    world.late.push(key);
                    return lost();
                }
                Fault::Busy => return Ok(answer(429, true)),
                Fault::Unavailable => return Ok(own(Problem::Unavailable)),
                Fault::ErrorAfter => {
                    world.arrives(&key, false);
                    return Ok(answer(500, false));
                }
                Fault::ErrorBefore => return Ok(answer(502, false)),
                Fault::Unknown => {
                    world.arrives(&key, false);
                    return Ok(own(Problem::Unknown));
                }
                Fault::InProgress => {
                    world.late.push(key);
                    return Ok(own(Problem::InProgress));
                }
                Fault::Rejected => return Ok(of(world.arrives(&key, true))),
                Fault::Redirect => return Ok(answer(307, false)),
            }
        };
        // The real error of a connection that there is none of.
        static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
        let client = CLIENT.get_or_init(|| reqwest::Client::builder().no_proxy().build().unwrap());
        Ok(client.get(format!("http://{nowhere}/")).send().await?)
    }
}

fn any_rejections() -> impl Strategy<Value = Rejections> {
    prop::sample::select(vec![Rejections::ProveNothing, Rejections::AreFinal, Rejections::AreRemembered])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_happens_at_most_once_and_what_is_told_is_true(
        script in prop::collection::vec(prop::sample::select(FAULTS.to_vec()), 0..6),
        rejections in any_rejections(),
        used_before in prop::option::of(prop::sample::select(vec![Fault::AnswerLost, Fault::Late, Fault::RequestLost])),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let world = Arc::new(Mutex::new(World {
                script,
                rejections,
                kept: HashMap::new(),
                effects: 0,
                attempts: 0,
                late: Vec::new(),
                nowhere: socket.local_addr().unwrap(),
            }));
            let options =
                ClientOptions { attempts: 4, backoff: Duration::from_micros(10), rejections, ..options() };
            let client = Client::new(reqwest::Client::builder().no_proxy(), options).unwrap().with(Wire(world.clone()));
            let call = client.call(client.post("http://127.0.0.1/charges").body("{}").build().unwrap());
            let call = match used_before {
                None => call,
                Some(fault) => {
                    // As an earlier process left it.
                    let mut world = world.lock().unwrap();
                    match fault {
                        Fault::AnswerLost => drop(world.arrives("\"order 7\"", false)),
                        Fault::Late => world.late.push("\"order 7\"".to_owned()),
                        _ => {}
                    }
                    call.key("order 7")
                }
            };
            let told = call.send().await;
            let mut world = world.lock().unwrap();
            prop_assert!(world.attempts <= 4);
            let then = world.effects;
            world.all_have_arrived();
            prop_assert!(world.effects <= 1, "{} effects", world.effects);
            match told {
                Answer::Done(response) => {
                    prop_assert_eq!(response.status().as_u16(), 201);
                    prop_assert_eq!(then, 1, "it was told done before it was");
                }
                Answer::NotDone(why) => prop_assert_eq!(world.effects, 0, "it was told not done: {}", why),
                Answer::Unknown { .. } => {}
            }
            Ok(())
        })?;
    }
}
