//! Taking a stream in.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::Live;
use crate::presets::{StreamEnd, Usage, Watcher};

/// How long, and for how much, a stream goes on to be read whose end has been told already.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LAST_BYTES: usize = 16 << 10;

/// How much of a stream is taken in, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamLimits {
    /// How many bytes of it are kept. A longer one passes, and its answer is not kept.
    pub(crate) kept: usize,
    /// How long it may be silent before it counts as broken off.
    pub(crate) silent: Duration,
    /// How long it is still taken in once nobody wants it any more.
    pub(crate) unheard: Duration,
}

/// How a stream was taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    /// All of it came. `None`: it is longer than what is kept.
    Whole(Option<Bytes>),
    /// It broke off, or it was given up because nobody wanted it.
    Cut(Why),
    /// It told of an error.
    WentWrong,
}

/// Why a stream is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The connection broke, or it ended before the end of the stream was told.
    Ended,
    /// Nothing came for too long.
    Silent,
    /// Nobody wanted it.
    Unheard,
}

/// Passes a stream on as it comes, and keeps it. What is whole is ended by [`Carrier::recorded`](super::Carrier::recorded),
/// once it is recorded; what is not has ended when this returns.
///
/// `framed`: whether the body's end can be told from the connection's end, so that the first one means that all of it came.
/// With a watcher, it says what is whole.
pub(crate) async fn capture<B>(
    live: &Live,
    body: B,
    mut watcher: Option<Watcher>,
    framed: bool,
    limits: &StreamLimits,
) -> (Captured, Usage)
where
    B: Body<Data = Bytes>,
{
    let end = tokio::select! {
        biased;
        end = take(live, body, watcher.as_mut(), framed, limits) => end,
        () = live.deserted(limits.unheard) => Err(Why::Unheard),
    };
    let usage = watcher.as_ref().map(Watcher::usage).unwrap_or_default();
    // The end may have been told just before nothing came any more.
    let end = if watcher.is_some_and(|watcher| watcher.is_whole()) { Ok(StreamEnd::Whole) } else { end };
    let captured = match end {
        Ok(StreamEnd::Whole) => return (Captured::Whole(live.kept()), usage),
        Ok(StreamEnd::WentWrong) => Captured::WentWrong,
        Ok(StreamEnd::Cut) => Captured::Cut(Why::Ended),
        Err(why) => Captured::Cut(why),
    };
    live.broken();
    (captured, usage)
}

async fn take<B>(
    live: &Live,
    body: B,
    mut watcher: Option<&mut Watcher>,
    framed: bool,
    limits: &StreamLimits,
) -> Result<StreamEnd, Why>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    loop {
        let is_whole = watcher.as_ref().is_some_and(|watcher| watcher.is_whole());
        let patience = if is_whole { LAST_WORDS } else { limits.silent };
        let frame = match timeout(patience, body.frame()).await {
            Err(_) => return Err(Why::Silent),
            Ok(Some(Err(_))) => {
                // An error that was told before counts for more than how the connection ended.
                return Ok(watcher.map_or(StreamEnd::Cut, Watcher::end));
            }
            Ok(None) => {
                let unwatched = if framed { StreamEnd::Whole } else { StreamEnd::Cut };
                return Ok(watcher.map_or(unwatched, Watcher::end));
            }
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers are left out.
        let Ok(bytes) = frame.into_data() else { continue };
        let held = match &mut watcher {
            Some(watcher) => {
                watcher.feed(&bytes);
                watcher.held()
            }
            None => 0,
        };
        live.chunk(&bytes, held);
        if is_whole && held > LAST_BYTES {
            return Ok(StreamEnd::Whole);
        }
    }
}
