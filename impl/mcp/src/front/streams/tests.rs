use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use tokio::sync::oneshot;

use super::*;
use crate::messages::frame::parse;
use crate::messages::lines::ToClient;

fn call(id: u64) -> Bytes {
    format!(r#"{{"id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{id}}}}}}}"#).into()
}

fn ask(streams: &Streams, id: u64) -> Reader {
    let line = call(id);
    streams.ask(&line, &parse(&line)).reader
}

async fn say(streams: &Streams, line: String) -> oneshot::Receiver<bool> {
    let (told, delivered) = oneshot::channel();
    streams.take(ToClient { line: line.into(), told: Some(told) }).await;
    delivered
}

fn answer(id: u64) -> String {
    format!(r#"{{"id":{id},"result":{{}}}}"#)
}

fn progress(token: u64, step: u64) -> String {
    format!(r#"{{"method":"notifications/progress","params":{{"progressToken":{token},"progress":{step}}}}}"#)
}

const QUEUED: usize = 64 << 10;
const KEPT: usize = 16 << 10;

/// Streams that hold less.
fn small() -> Streams {
    let streams = Streams::new(false);
    streams.inner().bounds = Bounds { queued: QUEUED, kept: KEPT };
    streams
}

/// What a reader gets now; the events' text. `None`: the end.
fn read(streams: &Streams, reader: Reader) -> Option<Vec<Next>> {
    read_some(streams, reader, usize::MAX)
}

/// At most so many of them.
fn read_some(streams: &Streams, reader: Reader, most: usize) -> Option<Vec<Next>> {
    let mut got = Vec::new();
    loop {
        if got.len() == most {
            return Some(got);
        }
        match streams.poll_next(reader, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(next)) => got.push(next),
            Poll::Ready(None) if got.is_empty() => return None,
            Poll::Ready(None) | Poll::Pending => return Some(got),
        }
    }
}

fn write(streams: &Streams, reader: Reader, there: bool, events: Vec<Next>) {
    for Next { number, told, .. } in events {
        streams.written(reader, number, there, told);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_delivered_when_it_was_written_and_not_before() {
    let streams = Streams::new(false);
    let reader = ask(&streams, 1);
    let mut delivered = say(&streams, answer(1)).await;
    let events = read(&streams, reader).unwrap();
    assert!(delivered.try_recv().is_err(), "handed out is not written");
    write(&streams, reader, true, events);
    assert_eq!(delivered.try_recv(), Ok(true));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_in_time_gets_it_delivered() {
    for (away, comes) in [(GRACE / 2, true), (GRACE, false)] {
        let streams = Streams::new(false);
        let reader = ask(&streams, 1);
        assert_eq!(streams.place(reader), Some(reader.id(0)));
        let mut delivered = say(&streams, answer(1)).await;
        let events = read(&streams, reader).unwrap();
        write(&streams, reader, false, events);
        streams.leave(reader);
        tokio::time::advance(away).await;
        streams.tidy();
        let again = streams.resume(&reader.id(0)).unwrap();
        let events = read(&streams, again).unwrap();
        assert_eq!(events.len(), 1, "it is kept either way");
        write(&streams, again, true, events);
        assert_eq!(delivered.try_recv(), Ok(comes), "{away:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_client_is_away_is_delivered_when_it_comes_back() {
    let streams = Streams::new(false);
    let reader = ask(&streams, 1);
    streams.place(reader);
    streams.leave(reader);
    tokio::time::advance(GRACE / 2).await;
    let mut delivered = say(&streams, answer(1)).await;
    streams.tidy();
    let again = streams.resume(&reader.id(0)).unwrap();
    let events = read(&streams, again).unwrap();
    write(&streams, again, true, events);
    assert_eq!(delivered.try_recv(), Ok(true));
}

#[tokio::test(start_paused = true)]
async fn what_comes_for_a_client_that_is_long_gone_is_not_delivered() {
    let streams = Streams::new(false);
    let reader = ask(&streams, 1);
    streams.place(reader);
    streams.leave(reader);
    tokio::time::advance(GRACE).await;
    assert_eq!(say(&streams, answer(1)).await.try_recv(), Ok(false));
    // One that was never told how to come back can't.
    let reader = ask(&streams, 2);
    streams.leave(reader);
    assert!(say(&streams, answer(2)).await.try_recv().is_err());
    assert_eq!(streams.resume(&reader.id(0)), Err(NotThere::Dropped));
    assert_eq!(streams.resume("7000-0"), Err(NotThere::Unknown));
}

#[tokio::test(start_paused = true)]
async fn a_complete_stream_is_kept_for_a_while() {
    let streams = Streams::new(false);
    let reader = ask(&streams, 1);
    streams.place(reader);
    drop(say(&streams, answer(1)).await);
    let events = read(&streams, reader).unwrap();
    write(&streams, reader, true, events);
    assert!(read(&streams, reader).is_none());
    streams.leave(reader);
    tokio::time::advance(KEEP / 2).await;
    streams.tidy();
    let again = streams.resume(&reader.id(1)).unwrap();
    assert!(read(&streams, again).is_none(), "nothing is left of it");
    streams.leave(again);
    tokio::time::advance(KEEP).await;
    streams.tidy();
    assert_eq!(streams.resume(&reader.id(0)), Err(NotThere::Dropped));
    assert!(streams.inner().streams.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_bounded() {
    let streams = small();
    let reader = ask(&streams, 1);
    streams.place(reader);
    let large = |step: u64| {
        let padding = "x".repeat(KEPT / 16);
        format!(
            r#"{{"method":"notifications/progress","params":{{"progressToken":1,"progress":{step},"x":"{padding}"}}}}"#
        )
    };
    for step in 0..40 {
        drop(say(&streams, large(step)).await);
        let events = read(&streams, reader).unwrap();
        write(&streams, reader, true, events);
    }
    {
        let inner = streams.inner();
        assert!(inner.kept_bytes <= KEPT && inner.queued == 0);
        let held: usize = inner.streams.values().flat_map(|stream| &stream.events).map(|event| event.data.len()).sum();
        assert!(held <= KEPT, "{held}");
    }
    assert_eq!(streams.resume(&reader.id(1)), Err(NotThere::Dropped));
    streams.resume(&reader.id(39)).unwrap();
    // Nobody comes to read these.
    for step in 0..3 * WAITING as u64 {
        drop(say(&streams, format!(r#"{{"method":"x","params":{step}}}"#)).await);
        if let Some(stream) = streams.inner().streams.values_mut().next() {
            stream.reader = None;
        }
    }
    assert!(streams.inner().waiting.len() <= WAITING);
}

#[tokio::test(start_paused = true)]
async fn a_server_waits_for_a_slow_client_but_not_for_ever() {
    let streams = std::sync::Arc::new(small());
    let slow = ask(&streams, 1);
    streams.place(slow);
    let quick = ask(&streams, 2);
    let half = "x".repeat(QUEUED / 2 + 1024);
    let large = move |step: u64| {
        format!(r#"{{"method":"notifications/progress","params":{{"progressToken":1,"p":{step},"x":"{half}"}}}}"#)
    };
    drop(say(&streams, large(0)).await);
    let saying = tokio::spawn({
        let streams = streams.clone();
        async move { drop(say(&streams, large(1)).await) }
    });
    tokio::task::yield_now().await;
    assert!(!saying.is_finished(), "there is no room");
    let events = read(&streams, slow).unwrap();
    assert_eq!(events.len(), 1);
    write(&streams, slow, true, events);
    tokio::time::timeout(SLOW / 2, saying).await.expect("there is room").unwrap();
    // Now it reads nothing any more.
    let padding = "x".repeat(QUEUED / 2 + 1024);
    drop(
        say(
            &streams,
            format!(r#"{{"method":"notifications/progress","params":{{"progressToken":2,"x":"{padding}"}}}}"#),
        )
        .await,
    );
    assert!(read(&streams, slow).is_none(), "it was cut");
    assert_eq!(read(&streams, quick).unwrap().len(), 1);
}

#[tokio::test]
async fn what_nobody_has_seen_goes_to_another_stream() {
    let streams = Streams::new(false);
    let reader = ask(&streams, 1);
    for text in [r#"{"id":"s","method":"roots/list"}"#, r#"{"method":"notifications/message"}"#] {
        drop(say(&streams, text.to_owned()).await);
    }
    streams.leave(reader);
    let listening = streams.listen().unwrap();
    let events = read(&streams, listening).unwrap();
    assert_eq!(events.len(), 2);
    assert!(events[0].data.starts_with(br#"{"id":"s""#), "in order");
}

#[tokio::test]
async fn the_end_of_a_session_answers_what_is_open() {
    let streams = Streams::new(false);
    let (one, listening) = (ask(&streams, 1), streams.listen().unwrap());
    assert!(streams.is_waited_for());
    streams.end();
    let events = read(&streams, one).unwrap();
    assert!(events[0].data.starts_with(br#"{"jsonrpc":"2.0","id":1,"error""#));
    assert!(read(&streams, one).is_none() && read(&streams, listening).is_none());
    assert!(streams.listen().is_none());
    drop(say(&streams, answer(1)).await);
}

#[tokio::test]
async fn in_a_session_that_clients_share_nothing_of_one_reaches_another() {
    let streams = Streams::new(true);
    let line = call(1);
    let (one, two) = (streams.ask(&line, &parse(&line)), streams.ask(&line, &parse(&line)));
    assert_ne!(one.line, two.line);
    assert_ne!(one.ids, two.ids);
    drop(say(&streams, r#"{"method":"notifications/message"}"#.to_owned()).await);
    assert!(read(&streams, one.reader).unwrap().is_empty() && read(&streams, two.reader).unwrap().is_empty());
    let back = streams.take(ToClient { line: r#"{"id":4,"method":"roots/list"}"#.into(), told: None }).await.unwrap();
    assert!(back.starts_with(br#"{"jsonrpc":"2.0","id":4,"error":{"code":-32601"#), "{back:?}");
    let params = crate::messages::splice::get(str::from_utf8(&two.line).unwrap(), "params").unwrap();
    let token = crate::messages::splice::get(crate::messages::splice::get(params, "_meta").unwrap(), "progressToken")
        .unwrap()
        .to_owned();
    drop(say(&streams, progress(token.parse().unwrap(), 7)).await);
    drop(say(&streams, format!(r#"{{"id":{},"result":{{}}}}"#, two.ids[0])).await);
    let events = read(&streams, two.reader).unwrap();
    let texts: Vec<&[u8]> = events.iter().map(|event| &event.data[..]).collect();
    assert_eq!(texts, [progress(1, 7).as_bytes(), answer(1).as_bytes()]);
    assert_eq!(streams.leave(one.reader), one.ids, "its request is cancelled");
    assert!(streams.leave(two.reader).is_empty());
    assert!(
        streams.inner().asked.is_empty() && streams.inner().tokens.is_empty() && streams.inner().streams.is_empty()
    );
}

/// What happens to a session with a few calls and a listener.
#[derive(Clone, Debug)]
enum Step {
    /// The server says something about a call.
    Progress(u64),
    /// And answers it.
    Answer(u64),
    /// It says something to whoever listens.
    Tell,
    /// The client reads a stream; this many of the events arrive before the connection is cut, if it is. One more is on
    /// its way then, and the rest has not been asked for.
    Read(u64, Option<usize>),
}

const LISTENER: u64 = 3;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..LISTENER).prop_map(Step::Progress),
        1 => (0..LISTENER).prop_map(Step::Answer),
        2 => Just(Step::Tell),
        4 => (0..=LISTENER, prop::option::of(0_usize..4)).prop_map(|(of, cut)| Step::Read(of, cut)),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// However streams are cut: by coming back, a client gets every message once, and those of a call in order.
    #[test]
    fn nothing_is_lost_reordered_or_delivered_twice(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let streams = Streams::new(false);
            let mut readers: BTreeMap<u64, Reader> = (0..LISTENER).map(|id| (id, ask(&streams, id))).collect();
            readers.insert(LISTENER, streams.listen().unwrap());
            let mut last: BTreeMap<u64, String> =
                readers.iter().map(|(of, reader)| (*of, streams.place(*reader).unwrap())).collect();
            let mut said: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            let mut heard: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            let mut answered = Vec::new();
            let finish = (0..LISTENER).map(Step::Answer).chain((0..=LISTENER).map(|of| Step::Read(of, None)));
            for (at, step) in steps.into_iter().chain(finish).enumerate() {
                match step {
                    Step::Progress(of) if !answered.contains(&of) => {
                        let line = progress(of, at as u64);
                        said.entry(of).or_default().push(line.clone());
                        drop(say(&streams, line).await);
                    }
                    Step::Answer(of) if !answered.contains(&of) => {
                        answered.push(of);
                        said.entry(of).or_default().push(answer(of));
                        drop(say(&streams, answer(of)).await);
                    }
                    Step::Tell => {
                        let line = format!(r#"{{"method":"x","params":{at}}}"#);
                        said.entry(LISTENER).or_default().push(line.clone());
                        drop(say(&streams, line).await);
                    }
                    Step::Read(of, cut) => {
                        let reader = readers[&of];
                        let most = cut.map_or(usize::MAX, |cut| cut + 1);
                        let Some(events) = read_some(&streams, reader, most) else { continue };
                        let arrive = cut.map_or(events.len(), |cut| cut.min(events.len()));
                        for (n, event) in events.into_iter().enumerate() {
                            if n < arrive {
                                heard.entry(of).or_default().push(String::from_utf8(event.data.to_vec()).unwrap());
                                last.insert(of, reader.id(event.number));
                            }
                            // What was written may not have arrived.
                            let written = n < arrive || n % 2 == 0;
                            streams.written(reader, event.number, written, event.told);
                        }
                        if cut.is_some() {
                            streams.leave(reader);
                            readers.insert(of, streams.resume(&last[&of]).unwrap());
                        }
                    }
                    Step::Progress(_) | Step::Answer(_) => {}
                }
            }
            let told = said.remove(&LISTENER).unwrap_or_default();
            let mut of_anybody = Vec::new();
            for heard in heard.values_mut() {
                let here: Vec<String> = heard.extract_if(.., |line| told.contains(line)).collect();
                assert!(here.is_sorted_by_key(|line| told.iter().position(|told| told == line)), "{here:?}");
                of_anybody.extend(here);
            }
            heard.retain(|_, heard| !heard.is_empty());
            assert_eq!(heard, said);
            // What is for anybody goes to one stream, whichever is open.
            of_anybody.sort_by_key(|line| told.iter().position(|told| told == line));
            assert_eq!(of_anybody, told);
        });
    }
}
