//! What happens in a run, in order: as a digest, by which two runs are compared, and as a story if somebody wants to read it.

use std::fmt::{self, Write as _};

/// FNV-1a: the same everywhere, and as good as needed here.
#[derive(Clone, Copy, Debug)]
struct Fnv(u64);

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Ok(())
    }
}

/// All that happened.
#[derive(Debug)]
pub(crate) struct EventLog {
    digest: Fnv,
    events: u64,
    story: Option<Vec<String>>,
}

impl EventLog {
    /// An empty one; with a story if it is to be told.
    pub(crate) fn new(told: bool) -> EventLog {
        EventLog { digest: Fnv(0xcbf2_9ce4_8422_2325), events: 0, story: told.then(Vec::new) }
    }

    /// Something happened, so many milliseconds after the beginning.
    pub(crate) fn note(&mut self, at: u64, what: fmt::Arguments<'_>) {
        self.events += 1;
        // Writing to it can't fail.
        let _ = writeln!(self.digest, "{at} {what}");
        if let Some(story) = &mut self.story {
            story.push(format!("{:>7}.{:03} s  {what}", at / 1_000, at % 1_000));
        }
    }

    /// How much happened.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// A digest of all of it.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.0
    }

    /// The story, if it was told.
    pub(crate) fn take_story(&mut self) -> Vec<String> {
        self.story.take().unwrap_or_default()
    }
}
