//! The client without a ledger, and servers that answer, refuse, break off and say nothing.

mod scripts;

use std::time::Duration;

use http::StatusCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::Request;
use settled::RetryBudget;
use settled_http::classify::{Declared, Means};
use settled_http::problem::Problem;
use settled_http::{Answer, Call, Client, ClientOptions, NotDone, Rejections, WhyUnknown};
use tokio::net::TcpSocket;

use crate::server::{Play, Server};

fn options() -> ClientOptions {
    let (backoff, longest_backoff) = (Duration::from_millis(1), Duration::from_millis(2));
    ClientOptions { attempts: 3, backoff, longest_backoff, ..ClientOptions::default() }
}

fn client(options: ClientOptions) -> Client {
    Client::new(reqwest::Client::builder().no_proxy(), options).unwrap()
}

fn charge(client: &Client, url: String) -> Request {
    client.post(url).body("{\"cents\":4200}").build().unwrap()
}

async fn answer(server: &Server, options: ClientOptions) -> Answer {
    let client = client(options);
    client.call(charge(&client, server.url("/charges"))).send().await
}

/// The keys that the server was sent, as the headers' values.
fn keys(server: &Server) -> Vec<String> {
    let line = |request: &String| {
        let found = request.lines().find_map(|line| line.strip_prefix("idempotency-key: "));
        found.expect("it has a key").to_owned()
    };
    server.requests().iter().map(line).collect()
}

/// One of the guard's own answers.
fn problem(problem: Problem<'_>) -> Play {
    let (parts, body) = problem.response().into_parts();
    let mut head = format!("{} X", parts.status.as_u16());
    for name in [CONTENT_TYPE, RETRY_AFTER] {
        if let Some(value) = parts.headers.get(&name) {
            let value = if name == RETRY_AFTER { "0" } else { value.to_str().unwrap() };
            head.push_str(&format!("\r\n{name}: {value}"));
        }
    }
    let body = String::from_utf8(body.to_vec()).unwrap();
    Play::Answer(head.leak(), body.leak())
}

/// What a call is told, in a word, and the status that came with it.
fn word(answer: &Answer) -> (&'static str, Option<u16>) {
    let status = |response: &reqwest::Response| Some(response.status().as_u16());
    match answer {
        Answer::Done(response) => ("done", status(response)),
        Answer::NotDone(NotDone::NotSent(_)) => ("not sent", None),
        Answer::NotDone(NotDone::Busy(response)) => ("busy", status(response)),
        Answer::NotDone(NotDone::Refused(response)) => ("refused", status(response)),
        Answer::NotDone(NotDone::Rejected(response)) => ("rejected", status(response)),
        Answer::NotDone(NotDone::Conflict(response)) => ("conflict", status(response)),
        Answer::NotDone(_) => ("no request", None),
        Answer::Unknown { why: WhyUnknown::Answered(response), .. } => ("unknown", status(response)),
        Answer::Unknown { why: WhyUnknown::NotSent(_), .. } => ("unknown, not sent now", None),
        Answer::Unknown { .. } => ("unknown", None),
    }
}

#[tokio::test]
async fn every_attempt_has_the_same_key_and_every_operation_its_own() {
    let server =
        Server::start([Play::Close, Play::Half, Play::Answer("201 Created\r\nlocation: /c/1", "charged")]).await;
    let client = client(options());
    let Answer::Done(response) = client.call(charge(&client, server.url("/charges"))).send().await else { panic!() };
    assert_eq!((response.status(), &response.headers()["location"]), (StatusCode::CREATED, &"/c/1".parse().unwrap()));
    assert_eq!(response.text().await.unwrap(), "charged");
    assert!(matches!(client.call(charge(&client, server.url("/charges"))).send().await, Answer::Done(_)));
    let keys = keys(&server);
    assert_eq!((keys[0].len(), keys.len()), (38, 4), "a UUID in quotation marks");
    assert!(keys[1] == keys[0] && keys[2] == keys[0] && keys[3] != keys[0], "{keys:?}");
    assert!(server.requests().iter().all(|request| request.ends_with("{\"cents\":4200}")));
}

#[tokio::test]
async fn what_never_has_an_answer_is_unknown() {
    let plays = [Play::Close, Play::Half, Play::Close];
    let server = Server::start(plays).await;
    let told = answer(&server, options()).await;
    let Answer::Unknown { key, why: WhyUnknown::NoAnswer(_) } = told else { panic!("{told:?}") };
    assert_eq!(keys(&server), [format!("\"{key}\""), format!("\"{key}\""), format!("\"{key}\"")]);
}

#[tokio::test]
async fn what_takes_too_long_is_unknown() {
    for (attempt_timeout, deadline, attempts) in [(50, 60_000, 3), (60_000, 50, 1)] {
        let server = Server::start([Play::Hang, Play::Hang, Play::Hang]).await;
        let options = ClientOptions {
            attempt_timeout: Duration::from_millis(attempt_timeout),
            deadline: Duration::from_millis(deadline),
            ..options()
        };
        assert_eq!(word(&answer(&server, options).await), ("unknown", None));
        assert!(server.requests().len() <= attempts);
    }
}

#[tokio::test]
async fn nothing_was_sent_is_proven_only_for_a_key_of_which_that_was_all() {
    // Bound, so that the port is taken, and not listening.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}/charges?token=s3cret", socket.local_addr().unwrap());
    let client = client(options());
    let call = || client.call(charge(&client, url.clone()));
    let Answer::NotDone(NotDone::NotSent(why)) = call().send().await else { panic!() };
    assert!(!why.is_empty() && !why.contains("s3cret"), "{why}");
    assert_eq!(word(&call().fresh_key("order 7").send().await), ("not sent", None));
    assert_eq!(word(&call().key("order 7").send().await), ("unknown, not sent now", None));
    let mut named = charge(&client, url.clone());
    named.headers_mut().insert("idempotency-key", "\"order 7\"".parse().unwrap());
    assert_eq!(word(&client.call(named).send().await), ("unknown, not sent now", None));
    drop(socket);

    // What was lost before may have happened all the same.
    let server = Server::start([Play::Close, Play::Answer("429 Too Many Requests\r\nretry-after: 0", "")]).await;
    assert_eq!(word(&answer(&server, ClientOptions { attempts: 2, ..options() }).await), ("unknown", Some(429)));
}

#[tokio::test]
async fn statuses_mean_what_they_prove() {
    const BUSY: Play = Play::Answer("429 Too Many Requests\r\nretry-after: 0", "");
    let in_progress = Play::Answer("409 Conflict\r\nretry-after: 0", "");
    for (plays, told, sent) in [
        (vec![BUSY, Play::Answer("200 OK", "")], ("done", Some(200)), 2),
        (vec![BUSY, BUSY, BUSY], ("busy", Some(429)), 3),
        (vec![Play::Close, BUSY, BUSY], ("unknown", Some(429)), 3),
        (vec![in_progress, Play::Answer("200 OK", "")], ("done", Some(200)), 2),
        (vec![in_progress, in_progress, in_progress], ("unknown", Some(409)), 3),
        (vec![in_progress, in_progress, BUSY], ("unknown", Some(429)), 3),
        (vec![Play::Answer("409 Conflict", "it exists")], ("unknown", Some(409)), 1),
        (vec![Play::Answer("402 Payment Required", "no")], ("unknown", Some(402)), 1),
        (vec![Play::Answer("307 Temporary Redirect\r\nlocation: /elsewhere", "")], ("unknown", Some(307)), 1),
        (vec![Play::Answer("500 Internal Server Error", ""); 3], ("unknown", Some(500)), 3),
        (vec![Play::Answer("503 Service Unavailable", ""), Play::Answer("200 OK", "")], ("done", Some(200)), 2),
        (vec![Play::Answer("408 Request Timeout", ""), Play::Answer("200 OK", "")], ("done", Some(200)), 2),
    ] {
        let server = Server::start(plays).await;
        let answer = answer(&server, options()).await;
        assert_eq!((word(&answer), server.requests().len()), (told, sent), "{answer:?}");
    }
}

#[tokio::test]
async fn a_rejection_proves_what_is_declared() {
    let rejected = Play::Answer("402 Payment Required", "no");
    for (rejections, first, after_a_loss) in [
        (Rejections::ProveNothing, "unknown", "unknown"),
        (Rejections::AreFinal, "rejected", "unknown"),
        (Rejections::AreRemembered, "rejected", "rejected"),
    ] {
        for (plays, told) in [(vec![rejected], first), (vec![Play::Close, rejected], after_a_loss)] {
            let server = Server::start(plays).await;
            let answer = answer(&server, ClientOptions { rejections, ..options() }).await;
            assert_eq!(word(&answer), (told, Some(402)), "{rejections:?} {answer:?}");
        }
    }
    let declared =
        Declared::new().status(StatusCode::CONFLICT, Means::Done).status(StatusCode::NOT_FOUND, Means::NotRun);
    for (head, told) in [("409 Conflict\r\nretry-after: 0", ("done", Some(409))), ("404 X", ("refused", Some(404)))] {
        let server = Server::start([Play::Answer(head, "")]).await;
        let options = ClientOptions { declared: declared.clone(), ..options() };
        assert_eq!(word(&answer(&server, options).await), told);
    }
}

#[tokio::test]
async fn the_guards_own_answers_are_understood() {
    for (plays, told, sent) in [
        (vec![problem(Problem::InProgress), Play::Answer("200 OK", "")], ("done", Some(200)), 2),
        (vec![problem(Problem::Unknown), Play::Answer("200 OK", "")], ("done", Some(200)), 2),
        (vec![problem(Problem::Unknown); 3], ("unknown", Some(502)), 3),
        (vec![problem(Problem::Unavailable); 3], ("busy", Some(503)), 3),
        (vec![Play::Close, problem(Problem::Unavailable), problem(Problem::Unavailable)], ("unknown", Some(503)), 3),
        (vec![problem(Problem::Failed(None))], ("refused", Some(503)), 1),
        // It may be free again, and what was lost may still come.
        (vec![Play::Close, problem(Problem::Failed(None))], ("unknown", Some(503)), 2),
        (vec![problem(Problem::Conflict)], ("conflict", Some(422)), 1),
        (vec![problem(Problem::KeyMissing)], ("refused", Some(400)), 1),
        (vec![problem(Problem::TooLarge(9))], ("refused", Some(413)), 1),
        (vec![problem(Problem::Expired)], ("unknown", Some(410)), 1),
        (vec![problem(Problem::AnswerNotKept)], ("done", Some(500)), 1),
    ] {
        let server = Server::start(plays).await;
        let answer = answer(&server, options()).await;
        assert_eq!((word(&answer), server.requests().len()), (told, sent), "{answer:?}");
    }
}

#[tokio::test]
async fn a_server_that_wants_to_be_left_alone_for_too_long_is() {
    let server = Server::start([Play::Answer("429 Too Many Requests\r\nretry-after: 3600", "")]).await;
    assert_eq!(word(&answer(&server, options()).await), ("busy", Some(429)));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn all_calls_of_a_client_share_its_retries() {
    let server = Server::start([Play::Close; 20]).await;
    let client = client(ClientOptions { attempts: 10, budget: RetryBudget { per_mille: 0, burst: 3 }, ..options() });
    let same = client.clone();
    for client in [client, same] {
        let told = client.call(charge(&client, server.url("/charges"))).send().await;
        assert_eq!(word(&told), ("unknown", None));
    }
    assert_eq!(server.requests().len(), 2 + 3);
}

#[tokio::test]
async fn of_a_larger_answer_it_is_told_that_it_happened() {
    let server = Server::start([Play::Answer("200 OK", "0123456789"), Play::Answer("500 X", "0123456789")]).await;
    let small = ClientOptions { max_response: 9, attempts: 1, ..options() };
    let Answer::Done(response) = answer(&server, small.clone()).await else { panic!() };
    assert!(response.text().await.unwrap().contains("urn:settled:answer-not-kept"));
    assert_eq!(word(&answer(&server, small).await), ("unknown", Some(500)));
}

#[tokio::test]
async fn what_is_no_request_is_not_sent() {
    let server = Server::start([]).await;
    let client = client(options());
    let long = "x".repeat(256);
    for key in ["", "schlüssel", "a\nb", long.as_str()] {
        let told = client.call(charge(&client, server.url("/charges"))).fresh_key(key).send().await;
        assert_eq!(word(&told), ("no request", None), "{key:?}");
    }
    let mut wrong = charge(&client, server.url("/charges"));
    wrong.headers_mut().insert("idempotency-key", "\"half".parse().unwrap());
    assert_eq!(word(&client.call(wrong).send().await), ("no request", None));
    let calls: [fn(Call) -> Call; 2] = [|call| call.key("say \"hi\""), |call| call.fresh_key("a key")];
    for call in calls {
        let told = call(client.call(charge(&client, server.url("/charges")))).send().await;
        assert_eq!(word(&told), ("done", Some(200)));
    }
    assert_eq!(keys(&server), ["\"say \\\"hi\\\"\"", "\"a key\""]);
}
