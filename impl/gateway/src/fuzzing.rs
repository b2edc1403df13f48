//! Ways into the parts that parse, for fuzz targets only: not part of the interface, and never to be relied on.

use crate::live;
use crate::presets::{Preset, StreamEnd, Watcher};

/// What a stream was taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Whether all of it came.
    pub is_whole: bool,
    /// Whether it told of an error.
    pub went_wrong: bool,
    /// How much of it may be shown before it is recorded.
    pub shown: usize,
    /// What it cost.
    pub cost: Vec<(&'static str, u64)>,
}

/// Watches a stream that comes in pieces of that size, and tells how much may be shown after each.
pub fn watch(preset: Preset, stream: &[u8], piece: usize, mut shows: impl FnMut(usize, usize)) -> Watched {
    let mut watcher = Watcher::new(preset, usize::MAX >> 1);
    let mut came = 0;
    for piece in stream.chunks(piece.max(1)) {
        watcher.feed(piece);
        came += piece.len();
        shows(came, came - watcher.held());
    }
    let shown = came - watcher.held();
    let end = watcher.end();
    Watched {
        is_whole: end == StreamEnd::Whole,
        went_wrong: end == StreamEnd::WentWrong,
        shown,
        cost: watcher.usage().kinds().collect(),
    }
}

/// How much of a stream comes before what follows on that event.
pub fn after(stream: &[u8], last: &str) -> Option<usize> {
    live::after(stream, last).ok()
}
