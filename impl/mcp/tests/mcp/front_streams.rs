//! The front over HTTP, revisions with sessions: streams that are cut, and what counts as delivered.

use crate::support::front::{Client, Event, Events, call_text, front, text_of};
use serde_json::json;

/// However slow an answer is, it counts as delivered once it has arrived.
const SLOW: &str = "[defaults]\nslow_answer = '1h'";

/// A call whose stream begins with an event to come back with; the stream, and that event's id.
async fn slow(client: &Client<'_>, id: u64, tool: &str, arguments: serde_json::Value) -> (Events, String) {
    let mut events = Events::of(client.call(id, tool, arguments).await);
    let first = events.next().await.unwrap();
    assert_eq!((first.data.as_deref(), first.retry.as_deref()), (Some(""), Some("1000")), "it primes the client");
    (events, first.id.unwrap())
}

#[tokio::test]
async fn a_cut_stream_is_resumed_where_it_was_left() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let (mut events, place) = slow(&client, 1, "read", json!({ "progress": 3, "token": 1, "wait": true })).await;
    let one = events.next().await.unwrap();
    let two = events.next().await.unwrap();
    let ids: Vec<&str> = [&one, &two].iter().map(|event| event.id.as_deref().unwrap()).collect();
    drop(events);
    front.server.open.send_replace(true);
    // From the second on.
    let rest = client.listen(Some(ids[1])).await.rest().await;
    let seen: Vec<&Event> = rest.iter().filter(|event| event.data.as_deref() != Some("")).collect();
    assert_eq!(seen.len(), 2, "{rest:?}");
    assert_eq!((&seen[0].message()["params"]["progress"], &seen[1].message()["id"]), (&json!(3), &json!(1)));
    // From the beginning, and again: the same events under the same ids.
    let all = client.listen(Some(&place)).await.rest().await;
    let messages: Vec<&Event> = all.iter().filter(|event| event.data.as_deref() != Some("")).collect();
    assert_eq!(messages.len(), 4);
    assert_eq!((messages[0], messages[1]), (&one, &two));
    assert_eq!(messages[3], seen[1]);
    for unknown in ["99-0", "x", "1-99"] {
        assert_eq!(client.get().header("last-event-id", unknown).send().await.unwrap().status(), 400, "{unknown}");
    }
    let other = front.open("2025-11-25").await;
    assert_eq!(other.get().header("last-event-id", &place).send().await.unwrap().status(), 400, "of another session");
}

#[tokio::test]
async fn an_answer_that_is_read_after_coming_back_is_delivered() {
    let front = front(SLOW).await;
    let client = front.open("2025-11-25").await;
    let (events, place) = slow(&client, 1, "plain", json!({ "wait": true })).await;
    drop(events);
    let mut again = client.listen(Some(&place)).await;
    front.server.open.send_replace(true);
    assert_eq!(text_of(&again.message().await), "done 1");
    assert_eq!(again.next().await, None);
    let wish = client.ask(2, "plain", json!({ "wait": true })).await;
    assert_eq!(text_of(&wish), "done 2", "it was delivered, so an equal call is a new wish");
}

#[tokio::test]
async fn an_answer_that_nobody_reads_is_not_delivered() {
    for revision in ["2025-11-25", "2025-06-18"] {
        let front = front(SLOW).await;
        let client = front.open(revision).await;
        // It has been begun when the client goes away, and it is no cancel.
        let calling = client.raw(&call_text(1, "plain", json!({ "wait": true })));
        front.server.until("the call", |server| server.got(&["plain"]) == 1).await;
        drop(calling);
        front.server.open.send_replace(true);
        front.server.until("the effect", |server| server.effects() == 1).await;
        let again = client.ask(2, "plain", json!({ "wait": true })).await;
        assert_eq!((text_of(&again), front.server.effects()), ("done 1", 1), "{revision}");
        assert_eq!(front.server.got(&["cancelled"]), 0);
        assert_eq!(text_of(&client.ask(3, "plain", json!({ "wait": true })).await), "done 2", "that was delivered");
    }
}

#[tokio::test]
async fn an_answer_on_a_stream_that_nobody_comes_back_to_is_not_delivered() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let (events, _) = slow(&client, 1, "plain", json!({ "wait": true })).await;
    drop(events);
    front.server.open.send_replace(true);
    front.server.until("the effect", |server| server.effects() == 1).await;
    let mut again = client.call(2, "plain", json!({ "wait": true })).await;
    let text = again.chunk().await.unwrap().unwrap();
    let mut text = String::from_utf8(text.to_vec()).unwrap();
    while !text.contains("done") {
        text.push_str(std::str::from_utf8(&again.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(text.contains("done 1"), "{text}");
    assert_eq!(front.server.effects(), 1);
}

#[tokio::test]
async fn who_listens_is_primed_and_loses_nothing() {
    let front = front("").await;
    let client = front.open("2025-11-25").await;
    let emit = |text: &str| {
        let message = json!({ "jsonrpc": "2.0", "method": "notifications/emit", "params": { "text": text } });
        let request = client.post(message.to_string());
        async move { assert_eq!(request.send().await.unwrap().status(), 202) }
    };
    let mut listening = client.listen(None).await;
    let first = listening.next().await.unwrap();
    assert_eq!((first.data.as_deref(), first.retry.as_deref()), (Some(""), Some("1000")));
    emit("one").await;
    let one = listening.next().await.unwrap();
    assert_eq!(one.message()["params"]["data"], "one");
    drop(listening);
    for text in ["two", "three"] {
        emit(text).await;
    }
    let mut again = client.listen(one.id.as_deref()).await;
    for text in ["two", "three"] {
        assert_eq!(again.message().await["params"]["data"], text);
    }
    // Whoever takes the stream up takes it from the one before.
    let mut third = client.listen(one.id.as_deref()).await;
    assert_eq!(again.next().await, None);
    for text in ["two", "three"] {
        assert_eq!(third.message().await["params"]["data"], text);
    }
    let older = front.open("2025-06-18").await;
    let mut listening = older.listen(None).await;
    let message = json!({ "jsonrpc": "2.0", "method": "notifications/emit", "params": { "text": "older" } });
    older.post(message.to_string()).send().await.unwrap();
    let first = listening.next().await.unwrap();
    assert_eq!(first.message()["params"]["data"], "older", "earlier revisions know no priming");
    assert!(first.id.is_some());
}
