//! Answers that come in bit by bit.

use std::sync::Arc;

use settled::{Filter, Ledger};

use crate::llm::{Client, EOF, HEAD, Llm, chunk};
use crate::support::*;

const CHAT: &str = "/v1/chat/completions";
const ONE: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Gr\u{fc}\"}}]}\n\n";
const TWO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ße\"}}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":11}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// A server and a gateway in front of it.
async fn llm(text: &str) -> (Llm, Running, Arc<dyn Ledger>) {
    let server = Llm::start().await;
    let ledger = ledger();
    let gateway = gateway(config(server.address, text), &ledger).await;
    (server, gateway, ledger)
}

/// A call with this key, to be listened to.
async fn call(gateway: &Running, path: &str, key: &str, headers: &str) -> Client {
    Client::send(gateway.address, request(path, key, headers, r#"{"stream":true}"#)).await
}

fn whole() -> Vec<u8> {
    [ONE, TWO, DONE].concat().into_bytes()
}

/// All of a good stream.
fn good() -> String {
    [HEAD, &chunk(ONE), &chunk(TWO), &chunk(DONE), EOF].concat()
}

#[tokio::test]
async fn bytes_pass_as_they_come_and_once_the_end_has_come_it_is_recorded() {
    let (mut server, gateway, ledger) = llm("").await;
    for n in 0..20 {
        let mut caller = call(&gateway, CHAT, &format!("\"k{n}\""), "").await;
        let mut taken = server.next().await;
        taken.write(HEAD).await;
        caller.hears("\r\n\r\n").await;
        for event in [ONE, ": still there\n\n", TWO] {
            taken.write(&chunk(event)).await;
            caller.hears(event).await;
        }
        taken.write(&chunk(DONE)).await;
        taken.write(EOF).await;
        caller.hears("[DONE]").await;
        assert!(ledger.scan(Filter::Unsettled).await.unwrap().is_empty());
        let reply = caller.reply().await.unwrap();
        assert_eq!((reply.status, reply.header("x-request-id")), (200, Some("r-1")));
        assert!(!reply.is_replayed());

        // And then it is told to everyone, all at once.
        let again = call(&gateway, CHAT, &format!("\"k{n}\""), "").await.reply().await.unwrap();
        assert_eq!((again.status, again.header("x-request-id"), &again.body), (200, Some("r-1"), &reply.body));
        assert!(again.is_replayed());
    }
    assert!(server.is_quiet());
}

#[tokio::test]
async fn a_repeat_while_it_streams_hears_it_from_the_start_and_then_live() {
    let (mut server, gateway, _) = llm("").await;
    let mut first = call(&gateway, CHAT, "\"k\"", "").await;
    let mut taken = server.next().await;
    taken.write(&[HEAD, &chunk(ONE)].concat()).await;
    first.hears(ONE).await;
    let mut others = Vec::new();
    for _ in 0..20 {
        let mut other = call(&gateway, CHAT, "\"k\"", "").await;
        other.hears(ONE).await;
        others.push(other);
    }
    // Another request under the key hears nothing of it, and another caller's key is another one.
    let conflict = raw(gateway.address, request(CHAT, "\"k\"", "", "{}")).await;
    assert_eq!((conflict.status, conflict.problem().as_str()), (422, "conflict"));
    let theirs = call(&gateway, CHAT, "\"k\"", "Authorization: Bearer other\r\n").await;
    let mut own = server.next().await;
    own.write(&good()).await;
    assert!(!theirs.reply().await.unwrap().is_replayed());

    taken.write(&[&chunk(TWO), &chunk(DONE), EOF].concat()).await;
    let first = first.reply().await.unwrap();
    assert_eq!((first.is_replayed(), &first.body), (false, &whole()));
    for other in others {
        let other = other.reply().await.unwrap();
        assert_eq!((other.is_replayed(), other.body), (true, whole()));
    }
    assert!(server.is_quiet());
}

#[tokio::test]
async fn a_caller_that_goes_away_finds_the_whole_answer_later() {
    let (mut server, gateway, ledger) = llm("").await;
    let mut first = call(&gateway, CHAT, "\"k\"", "").await;
    let mut taken = server.next().await;
    taken.write(&[HEAD, &chunk(ONE)].concat()).await;
    first.hears(ONE).await;
    drop(first);
    // One that comes back while it goes on hears it from the start.
    let mut again = call(&gateway, CHAT, "\"k\"", "").await;
    again.hears(ONE).await;
    drop(again);
    taken.write(&[&chunk(TWO), &chunk(DONE), EOF].concat()).await;
    let waiting = async {
        while !ledger.scan(Filter::Unsettled).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), waiting).await.unwrap();
    let reply = call(&gateway, CHAT, "\"k\"", "").await.reply().await.unwrap();
    assert_eq!((reply.status, reply.is_replayed(), reply.body), (200, true, whole()));
    assert!(server.is_quiet());
}

#[tokio::test]
async fn what_nobody_wants_is_given_up_if_the_route_says_so() {
    let route = format!("[[routes]]\npath = \"{CHAT}\"\nunheard = \"1ms\"\nsettle = \"10ms\"");
    let (mut server, gateway, _) = llm(&route).await;
    let mut first = call(&gateway, CHAT, "\"k\"", "").await;
    let mut taken = server.next().await;
    taken.write(&[HEAD, &chunk(ONE)].concat()).await;
    first.hears(ONE).await;
    drop(first);
    taken.closed().await;
    let told = call(&gateway, CHAT, "\"k\"", "").await.reply().await.unwrap();
    assert_eq!((told.status, told.problem().as_str()), (502, "unknown"));
    assert!(server.is_quiet());
}

/// Streams that end too early, each after it has begun.
fn cut() -> Vec<(&'static str, String)> {
    let begun = [HEAD, &chunk(ONE)].concat();
    vec![
        ("reset", begun.clone()),
        ("in an event", format!("{begun}{}", chunk(&TWO[..20]))),
        ("in a chunk", format!("{begun}ff\r\n{}", &TWO[..20])),
        ("before its end marker", format!("{begun}{}", chunk(TWO))),
        ("in its end marker", format!("{begun}{}", chunk("data: [DON"))),
        ("in good order, without its end marker", format!("{begun}{}{EOF}", chunk(TWO))),
        ("with an error", format!("{begun}{}{EOF}", chunk("data: {\"error\":{\"message\":\"overloaded\"}}\n\n"))),
        ("with an error and a marker", format!("{begun}{}{EOF}", chunk(&format!("data: {{\"error\":1}}\n\n{DONE}")))),
    ]
}

#[tokio::test]
async fn a_stream_that_broke_off_is_never_taken_for_whole_and_is_unknown() {
    let (mut server, gateway, _) = llm(&format!("[[routes]]\npath = \"{CHAT}\"\nsettle = \"10ms\"")).await;
    for (n, (what, bytes)) in cut().into_iter().enumerate() {
        let caller = call(&gateway, CHAT, &format!("\"k{n}\""), "").await;
        server.next().await.reset_after(&bytes).await;
        assert_eq!(caller.reply().await, None, "{what}");
        let told = call(&gateway, CHAT, &format!("\"k{n}\""), "").await.reply().await.unwrap();
        assert_eq!((told.status, told.problem().as_str()), (502, "unknown"), "{what}");
    }
    assert!(server.is_quiet(), "nothing was sent again");
}

#[tokio::test]
async fn an_upstream_that_knows_keys_is_sent_it_again_and_the_caller_gets_the_whole() {
    let route = format!("[[routes]]\npath = \"{CHAT}\"\nkind = \"keyed\"\nremembers = \"1h\"");
    let (mut server, gateway, _) = llm(&route).await;
    for (n, (what, bytes)) in cut().into_iter().enumerate() {
        let key = format!("\"k{n}\"");
        let caller = call(&gateway, CHAT, &key, "").await;
        let first = server.next().await;
        let sent = first.request.clone();
        first.reset_after(&bytes).await;
        assert_eq!(caller.reply().await, None, "{what}");
        let mut second = server.next().await;
        assert_eq!(second.request, sent, "{what}");
        assert!(sent.to_lowercase().contains(&format!("idempotency-key: {key}")), "{sent}");
        second.write(&[HEAD, &chunk(ONE)].concat()).await;
        let mut again = call(&gateway, CHAT, &key, "").await;
        again.hears(ONE).await;
        second.write(&[&chunk(TWO), &chunk(DONE), EOF].concat()).await;
        assert_eq!(again.reply().await.unwrap().body, whole(), "{what}");
    }
    assert!(server.is_quiet());
}

#[tokio::test]
async fn wherever_the_upstream_cuts_its_answer_nobody_sees_a_whole_one() {
    let (mut server, gateway, _) = llm(&format!("[[routes]]\npath = \"{CHAT}\"\nsettle = \"1ms\"")).await;
    let all = good();
    let end_marker = all.find("[DONE]").unwrap() + "[DONE]".len();
    for at in 0..all.len() {
        // In the middle of a character, there is no text up to there.
        if !all.is_char_boundary(at) {
            continue;
        }
        let key = format!("\"k{at}\"");
        let caller = call(&gateway, CHAT, &key, "").await;
        server.next().await.reset_after(&all[..at]).await;
        let heard = caller.reply().await;
        let told = call(&gateway, CHAT, &key, "").await.reply().await.unwrap();
        if at < end_marker {
            assert!(heard.is_none_or(|reply| reply.status == 502), "at {at}");
            assert_eq!((told.status, told.problem().as_str()), (502, "unknown"), "at {at}");
        } else {
            // All of it is there: how the connection ends means nothing then.
            assert_eq!((told.status, told.is_replayed()), (200, true), "at {at}");
            assert_eq!(told.body, heard.unwrap().body, "at {at}");
            assert!(String::from_utf8_lossy(&told.body).contains("[DONE]"));
        }
    }
    assert!(server.is_quiet());
}

#[tokio::test]
async fn other_streams_are_whole_with_the_end_of_their_body() {
    let (mut server, gateway, _) = llm(
        "[[routes]]\npath = \"/events\"\nsettle = \"10ms\"\n[[routes]]\npath = \"/lines\"\nstream = true\nsettle = \"10ms\"",
    )
    .await;
    let closing = HEAD.replace("transfer-encoding: chunked\r\n", "");
    let lines = HEAD.replace("text/event-stream", "application/x-ndjson");
    for (n, (path, bytes, is_whole)) in [
        ("/events", [HEAD, &chunk(ONE), EOF].concat(), true),
        ("/events", [HEAD, &chunk(ONE)].concat(), false),
        ("/events", [&closing, ONE].concat(), false),
        ("/lines", [&lines, &chunk(ONE), EOF].concat(), true),
        ("/lines", [&lines[..], &chunk(ONE)].concat(), false),
        // An end marker counts, however the connection ends.
        (CHAT, [&closing, ONE, DONE].concat(), true),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("\"k{n}\"");
        let mut caller = call(&gateway, path, &key, "").await;
        let mut taken = server.next().await;
        taken.write(&bytes).await;
        caller.hears(ONE).await;
        drop(taken);
        assert_eq!(caller.reply().await.is_some(), is_whole, "{n}");
        let told = call(&gateway, path, &key, "").await.reply().await.unwrap();
        assert_eq!(told.status, if is_whole { 200 } else { 502 }, "{n}");
    }
}

#[tokio::test]
async fn one_who_got_a_part_resumes_after_it() {
    let (mut server, gateway, _) = llm("").await;
    let (one, two) = (format!("id: e1\n{ONE}"), format!("id: e2\n{TWO}"));
    let mut first = call(&gateway, CHAT, "\"k\"", "").await;
    let mut taken = server.next().await;
    assert!(!taken.request.to_lowercase().contains("last-event-id"));
    taken.write(&[HEAD, &chunk(&one)].concat()).await;
    first.hears(&one).await;
    let resumed = call(&gateway, CHAT, "\"k\"", "Last-Event-ID: e1\r\n").await;
    let unknown = call(&gateway, CHAT, "\"k\"", "Last-Event-ID: e9\r\n").await.reply().await.unwrap();
    assert_eq!(unknown.status, 400);
    taken.write(&[&chunk(&two), &chunk(DONE), EOF].concat()).await;
    let rest = [&two, DONE].concat();
    assert_eq!(String::from_utf8(resumed.reply().await.unwrap().body).unwrap(), rest);
    assert_eq!(String::from_utf8(first.reply().await.unwrap().body).unwrap(), [&one, &rest[..]].concat());
    for (last, rest) in [("e1", &rest[..]), ("e2", DONE)] {
        let header = format!("Last-Event-ID: {last}\r\n");
        let stored = call(&gateway, CHAT, "\"k\"", &header).await.reply().await.unwrap();
        assert_eq!((stored.is_replayed(), String::from_utf8(stored.body).unwrap().as_str()), (true, rest));
    }
}

#[tokio::test]
async fn events_without_ids_are_counted() {
    let (mut server, gateway, _) = llm("").await;
    let first = call(&gateway, CHAT, "\"k\"", "").await;
    server.next().await.write(&good()).await;
    first.reply().await.unwrap();
    for (last, rest) in [("0", [ONE, TWO, DONE].concat()), ("1", [TWO, DONE].concat()), ("3", String::new())] {
        let header = format!("Last-Event-ID: {last}\r\n");
        let stored = call(&gateway, CHAT, "\"k\"", &header).await.reply().await.unwrap();
        assert_eq!(String::from_utf8(stored.body).unwrap(), rest, "after {last}");
    }
}

#[tokio::test]
async fn a_longer_stream_than_is_kept_passes_and_is_told_to_have_happened() {
    let (mut server, gateway, _) = llm("[limits]\nstored_bytes = \"1KiB\"").await;
    let caller = call(&gateway, CHAT, "\"k\"", "").await;
    let mut taken = server.next().await;
    let many = [&ONE.repeat(60)[..], DONE].concat();
    taken.write(HEAD).await;
    for event in many.split_inclusive("\n\n") {
        taken.write(&chunk(event)).await;
    }
    taken.write(EOF).await;
    // Who reads as fast as it comes has all of it; who does not is cut off, and told so by that.
    if let Some(reply) = caller.reply().await {
        assert_eq!(String::from_utf8(reply.body).unwrap(), many);
    }
    let again = call(&gateway, CHAT, "\"k\"", "").await.reply().await.unwrap();
    assert_eq!((again.status, again.problem().as_str()), (500, "answer-not-kept"));
    assert!(server.is_quiet());
}

#[tokio::test]
async fn a_compressed_stream_is_not_asked_for_and_passes_all_the_same() {
    let (mut server, gateway, _) = llm("").await;
    let caller = call(&gateway, CHAT, "\"k\"", "Accept-Encoding: gzip\r\n").await;
    let mut taken = server.next().await;
    let sent = taken.request.to_lowercase();
    assert!(sent.contains("accept-encoding: identity\r\n") && !sent.contains("gzip"), "{sent}");
    let head = HEAD.replace("x-request-id", "content-encoding: gzip\r\nx-request-id");
    taken.write(&[&head, &chunk("not really"), EOF].concat()).await;
    assert_eq!(caller.reply().await.unwrap().body, b"not really");
    assert_eq!(call(&gateway, CHAT, "\"k\"", "").await.reply().await.unwrap().body, b"not really");
}
