use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::*;
use crate::live::capture::Why;
use crate::live::listener::Interrupted;
use crate::presets::{Preset, Watcher};

mod any;

const LIMITS: StreamLimits =
    StreamLimits { kept: 1 << 20, silent: Duration::from_secs(60), unheard: Duration::from_secs(600) };
const STREAM: &[u8] = b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n";
const SHOWN: &[u8] = b"data: 1\n\ndata: 2\n\n";

fn key() -> Key {
    Key::new("shop", "charge", "order 7").unwrap()
}

fn fingerprint(of: &str) -> Digest {
    Digest::of(of.as_bytes())
}

/// The upstream's body, which comes as a test says.
struct Upstream(mpsc::UnboundedReceiver<Result<Bytes, &'static str>>);
type Hand = mpsc::UnboundedSender<Result<Bytes, &'static str>>;

fn upstream() -> (Hand, Upstream) {
    let (hand, comes) = mpsc::unbounded_channel();
    (hand, Upstream(comes))
}

impl Body for Upstream {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        self.0.poll_recv(context).map(|next| next.map(|next| next.map(Frame::data)))
    }
}

fn chunk(hand: &Hand, bytes: &'static [u8]) {
    hand.send(Ok(Bytes::from_static(bytes))).unwrap();
}

fn begin(carrier: &Carrier) -> Live {
    carrier.begin(StatusCode::OK, HeaderMap::new(), LIMITS.kept)
}

fn captured(live: &Live, body: Upstream, limits: StreamLimits) -> JoinHandle<(Captured, crate::presets::Usage)> {
    let live = live.clone();
    let watcher = Watcher::new(Preset::ChatCompletions, 1 << 20);
    tokio::spawn(async move { capture(&live, body, Some(watcher), true, &limits).await })
}

/// All that a listener is told, and how it ended.
async fn hear(mut listener: Listener) -> (Vec<u8>, Option<Interrupted>) {
    let mut heard = Vec::new();
    loop {
        match listener.frame().await {
            Some(Ok(frame)) => heard.extend_from_slice(&frame.into_data().unwrap()),
            Some(Err(error)) => return (heard, Some(error)),
            None => return (heard, None),
        }
    }
}

/// What a listener can have at once.
fn ready(listener: &mut Listener) -> (Vec<u8>, Option<Option<Interrupted>>) {
    let mut heard = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match Pin::new(&mut *listener).poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => heard.extend_from_slice(&frame.into_data().unwrap()),
            Poll::Ready(Some(Err(error))) => return (heard, Some(Some(error))),
            Poll::Ready(None) => return (heard, Some(None)),
            Poll::Pending => return (heard, None),
        }
    }
}

/// Lets everything run that can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_pass_as_they_come_and_the_end_once_it_is_recorded() {
    let streams = Streams::default();
    let (carrier, caller) = streams.join(&key(), fingerprint("a"));
    let live = begin(&carrier);
    let (hand, body) = upstream();
    let capturing = captured(&live, body, LIMITS);
    let mut first = caller.started().await.listen(None).unwrap();
    chunk(&hand, b"data: 1\n\n");
    settle().await;
    assert_eq!(ready(&mut first), (b"data: 1\n\n".to_vec(), None));
    chunk(&hand, b"data: 2\n\ndata: [DONE]\n\n");
    drop(hand);
    assert_eq!(capturing.await.unwrap().0, Captured::Whole(Some(Bytes::from_static(STREAM))));

    // One who comes now gets all but the end, as the first one did.
    let (_, late) = streams.join(&key(), fingerprint("a"));
    let mut second = late.started().await.listen(None).unwrap();
    assert_eq!(ready(&mut first), (b"data: 2\n\n".to_vec(), None));
    assert_eq!(ready(&mut second), (SHOWN.to_vec(), None));
    assert!(caller.brought(&live) && !late.brought(&live));

    carrier.recorded();
    for listener in [&mut first, &mut second] {
        assert_eq!(ready(listener), (b"data: [DONE]\n\n".to_vec(), Some(None)));
    }
    // And nobody joins it any more: the ledger has it.
    settle().await;
    assert!(timeout(Duration::from_secs(9), late.started()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_recorded_has_no_end() {
    let streams = Streams::default();
    let (carrier, caller) = streams.join(&key(), fingerprint("a"));
    let live = begin(&carrier);
    let listener = caller.started().await.listen(None).unwrap();
    let (hand, body) = upstream();
    chunk(&hand, STREAM);
    drop(hand);
    assert!(matches!(captured(&live, body, LIMITS).await.unwrap().0, Captured::Whole(Some(_))));
    drop(carrier);
    assert_eq!(hear(listener).await, (SHOWN.to_vec(), Some(Interrupted::Broken)));
    drop((caller, live));
    assert_eq!(streams.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_breaks_off_for_everyone_at_once() {
    for (error, end) in [(true, Captured::Cut(Why::Ended)), (false, Captured::Cut(Why::Ended))] {
        let streams = Streams::default();
        let (carrier, caller) = streams.join(&key(), fingerprint("a"));
        let live = begin(&carrier);
        let listener = caller.started().await.listen(None).unwrap();
        let (hand, body) = upstream();
        chunk(&hand, b"data: 1\n\ndata: 2");
        if error {
            hand.send(Err("reset")).unwrap();
        }
        drop(hand);
        assert_eq!(captured(&live, body, LIMITS).await.unwrap().0, end);
        // Half an event is of no use to anyone.
        assert_eq!(hear(listener).await, (b"data: 1\n\n".to_vec(), Some(Interrupted::Broken)));
        assert!(timeout(Duration::from_secs(9), caller.started()).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_preset_the_bodys_own_end_counts() {
    for (framed, error, whole) in [(true, false, true), (false, false, false), (true, true, false)] {
        let streams = Streams::default();
        let (carrier, _caller) = streams.join(&key(), fingerprint("a"));
        let live = begin(&carrier);
        let (hand, body) = upstream();
        chunk(&hand, b"data: 1\n\nx");
        if error {
            hand.send(Err("reset")).unwrap();
        }
        drop(hand);
        // All of it can be shown, but not that it was all.
        let mut listener = live.listen(None).unwrap();
        let (captured, _) = capture(&live, body, None, framed, &LIMITS).await;
        let (heard, end) = ready(&mut listener);
        assert_eq!(heard, b"data: 1\n\nx");
        if whole {
            assert_eq!((captured, end), (Captured::Whole(Some(Bytes::from_static(b"data: 1\n\nx"))), None));
        } else {
            assert_eq!((captured, end), (Captured::Cut(Why::Ended), Some(Some(Interrupted::Broken))));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_end_marker_nothing_is_waited_for_long() {
    for (more, error) in [(&b""[..], false), (b"\n: bye\n", false), (&[b'x'; 20 << 10], false), (b"", true)] {
        let streams = Streams::default();
        let (carrier, _caller) = streams.join(&key(), fingerprint("a"));
        let live = begin(&carrier);
        let (hand, body) = upstream();
        chunk(&hand, STREAM);
        chunk(&hand, more);
        if error {
            hand.send(Err("reset")).unwrap();
        }
        let begun = tokio::time::Instant::now();
        let Captured::Whole(Some(kept)) = captured(&live, body, LIMITS).await.unwrap().0 else { panic!() };
        assert!(begun.elapsed() < Duration::from_secs(2));
        assert_eq!(kept, [STREAM, more].concat());
        drop(hand);
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_end_marker_without_end_is_not_kept() {
    let streams = Streams::default();
    let (carrier, _caller) = streams.join(&key(), fingerprint("a"));
    let live = begin(&carrier);
    let (hand, body) = upstream();
    chunk(&hand, STREAM);
    (0..1_000).for_each(|_| chunk(&hand, &[b'x'; 1 << 10]));
    let Captured::Whole(Some(kept)) = captured(&live, body, LIMITS).await.unwrap().0 else { panic!() };
    assert!(kept.starts_with(STREAM) && kept.len() < 32 << 10, "{} bytes", kept.len());
}

#[tokio::test(start_paused = true)]
async fn silence_is_an_end_too() {
    let streams = Streams::default();
    let (carrier, _caller) = streams.join(&key(), fingerprint("a"));
    let live = begin(&carrier);
    let (hand, body) = upstream();
    let capturing = captured(&live, body, LIMITS);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        chunk(&hand, b": still there\n");
    }
    assert!(!capturing.is_finished());
    assert_eq!(capturing.await.unwrap().0, Captured::Cut(Why::Silent));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_wants_is_taken_in_for_as_long_as_the_policy_says() {
    for unheard in [Duration::ZERO, Duration::from_secs(30)] {
        let streams = Streams::default();
        let (carrier, caller) = streams.join(&key(), fingerprint("a"));
        let live = begin(&carrier);
        let (hand, body) = upstream();
        let capturing = captured(&live, body, StreamLimits { unheard, silent: Duration::from_secs(3600), ..LIMITS });
        chunk(&hand, b"data: 1\n\n");
        let listener = caller.started().await.listen(None).unwrap();
        drop(caller);
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(!capturing.is_finished(), "somebody listens");
        drop(listener);
        if !unheard.is_zero() {
            // One who comes back in time hears it from the start.
            tokio::time::sleep(Duration::from_secs(20)).await;
            let (_, again) = streams.join(&key(), fingerprint("a"));
            tokio::time::sleep(Duration::from_secs(20)).await;
            assert_eq!(ready(&mut again.started().await.listen(None).unwrap()).0, b"data: 1\n\n");
            assert!(!capturing.is_finished());
        }
        assert_eq!(capturing.await.unwrap().0, Captured::Cut(Why::Unheard));
        drop(hand);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_other_arguments_hears_nothing() {
    let streams = Streams::default();
    let (carrier, _caller) = streams.join(&key(), fingerprint("a"));
    let (_, other) = streams.join(&key(), fingerprint("b"));
    let _live = begin(&carrier);
    assert!(timeout(Duration::from_secs(9), other.started()).await.is_err());
    let (_, elsewhere) = streams.join(&Key::new("shop", "charge", "order 8").unwrap(), fingerprint("a"));
    assert!(timeout(Duration::from_secs(9), elsewhere.started()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_breaks_the_earlier_one_off_and_is_joined_instead() {
    let streams = Streams::default();
    let (carrier, caller) = streams.join(&key(), fingerprint("a"));
    let first = begin(&carrier);
    first.chunk(b"data: 1\n\n", 0);
    let listener = caller.started().await.listen(None).unwrap();
    let second = begin(&carrier);
    second.chunk(b"data: one\n\n", 0);
    assert_eq!(hear(listener).await, (b"data: 1\n\n".to_vec(), Some(Interrupted::Broken)));
    let again = caller.started().await.listen(None).unwrap();
    first.chunk(b"late", 0);
    carrier.recorded();
    assert_eq!(hear(again).await, (b"data: one\n\n".to_vec(), None));
}

#[tokio::test(start_paused = true)]
async fn a_longer_stream_than_is_kept_passes_and_only_who_is_too_slow_loses_it() {
    const KEPT: usize = 1_000;
    let streams = Streams::default();
    let (carrier, caller) = streams.join(&key(), fingerprint("a"));
    let live = carrier.begin(StatusCode::OK, HeaderMap::new(), KEPT);
    let (mut quick, slow) = (live.listen(None).unwrap(), live.listen(None).unwrap());
    let mut heard = Vec::new();
    for n in 0..500 {
        live.chunk(format!("data: {n}\n\n").as_bytes(), 0);
        heard.extend(ready(&mut quick).0);
        assert!(lock(&live.0.state).buffer.size() <= KEPT);
    }
    assert_eq!(heard, (0..500).map(|n| format!("data: {n}\n\n")).collect::<String>().into_bytes());
    assert_eq!(live.kept(), None);
    assert!(timeout(Duration::from_secs(9), caller.started()).await.is_err(), "nobody can join it from the start");
    assert_eq!(hear(slow).await, (Vec::new(), Some(Interrupted::TooLate)));
    carrier.recorded();
    assert_eq!(ready(&mut quick), (Vec::new(), Some(None)));
}

#[tokio::test(start_paused = true)]
async fn many_listeners_are_all_woken_and_one_that_does_not_read_holds_up_nobody() {
    let streams = Streams::default();
    let (carrier, caller) = streams.join(&key(), fingerprint("a"));
    let live = begin(&carrier);
    let _idle = live.listen(None).unwrap();
    let listening: Vec<_> = (0..100)
        .map(|_| {
            let listener = live.listen(None).unwrap();
            tokio::spawn(hear(listener))
        })
        .collect();
    let left = tokio::spawn(hear(live.listen(None).unwrap()));
    settle().await;
    left.abort();
    for n in 0..50 {
        live.chunk(format!("data: {n}\n\n").as_bytes(), 0);
        settle().await;
    }
    carrier.recorded();
    for listener in listening {
        let (heard, end) = listener.await.unwrap();
        assert_eq!((heard.len(), end), (50 * 9 + 40, None));
    }
    drop(caller);
}

#[tokio::test(start_paused = true)]
async fn one_who_resumes_hears_what_comes_after() {
    let streams = Streams::default();
    let (carrier, caller) = streams.join(&key(), fingerprint("a"));
    let live = begin(&carrier);
    live.chunk(b"id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: c\n\n", 15);
    // What is held has not come for anyone yet.
    assert!(live.listen(Some("3")).is_err());
    let resumed = caller.started().await.listen(Some("1")).unwrap();
    carrier.recorded();
    assert_eq!(hear(resumed).await, (b"id: 2\ndata: b\n\nid: 3\ndata: c\n\n".to_vec(), None));
}
