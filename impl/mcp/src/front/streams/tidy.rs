//! What is no longer needed: by time, by size, at a session's end.

use tokio::time::Instant;

use super::{GRACE, Inner, KEEP, Kind, Streams};
use crate::behind::server::TRANSPORT_ERROR;
use crate::messages::frame::IdKey;
use crate::told::answer::error_line;

/// How long a stream to listen on is kept for a client that comes back.
const LISTENING: u32 = 5;

impl Streams {
    /// Drops what nobody has come back for. To be called now and then.
    pub(crate) fn tidy(&self) {
        let now = Instant::now();
        let mut inner = self.inner();
        let mut old = Vec::new();
        for (number, stream) in inner.streams.iter_mut().filter(|(_, stream)| stream.reader.is_none()) {
            let away = now.duration_since(stream.since);
            if away >= GRACE {
                stream.events.iter_mut().for_each(|event| event.tell(false));
            }
            let keep = match stream.kind {
                Kind::Answers(0) => Some(KEEP),
                Kind::Answers(_) => None,
                Kind::Listening => Some(KEEP * LISTENING),
            };
            if keep.is_some_and(|keep| away >= keep) {
                old.push(*number);
            }
        }
        old.into_iter().for_each(|number| inner.remove(number));
    }

    /// A request is not answered any more.
    pub(crate) fn forget(&self, id: &IdKey) {
        let mut inner = self.inner();
        let Some(asked) = inner.asked.remove(id) else { return };
        if let Some(token) = &asked.token {
            inner.tokens.remove(token);
        }
        if let Some(stream) = inner.streams.get_mut(&asked.stream)
            && let Kind::Answers(open) = &mut stream.kind
        {
            *open = open.saturating_sub(1);
            stream.wake();
        }
    }

    /// The session is over: what is not answered never will be.
    pub(crate) fn end(&self) {
        let mut inner = self.inner();
        let asked = std::mem::take(&mut inner.asked);
        for asked in asked.into_values() {
            let text = "the session has ended before this was answered: whether it did what was asked is not known";
            let line = error_line(&asked.own, TRANSPORT_ERROR, text, None);
            inner.push(asked.stream, line.into(), true, None);
        }
        inner.over = true;
        inner.tokens.clear();
        inner.waiting.clear();
        inner.streams.values_mut().for_each(super::Stream::wake);
        drop(inner);
        self.room.notify_waiters();
    }
}

impl Inner {
    /// Drops a stream and all that waits on it.
    pub(super) fn remove(&mut self, number: u64) {
        let Some(mut stream) = self.streams.remove(&number) else { return };
        stream.wake();
        for mut event in stream.events {
            event.tell(false);
            if !event.handed_out {
                self.queued = self.queued.saturating_sub(event.data.len());
            }
            if event.kept {
                self.kept_bytes = self.kept_bytes.saturating_sub(event.data.len());
            }
        }
    }

    /// Drops the stream that nobody has read for the longest, if something waits on it. `false`: there is none.
    pub(super) fn drop_unread(&mut self) -> bool {
        let unread = self.streams.iter().filter(|(_, stream)| stream.reader.is_none() && stream.next < stream.end());
        let Some(number) = unread.min_by_key(|(_, stream)| stream.since).map(|(number, _)| *number) else {
            return false;
        };
        tracing::warn!("what a client did not come back for was dropped: there is too much of it");
        self.remove(number);
        true
    }

    /// Drops the stream on which the most waits.
    pub(super) fn cut_longest(&mut self) {
        let unread = |stream: &super::Stream| -> usize {
            stream.events.iter().filter(|event| !event.handed_out).map(|event| event.data.len()).sum()
        };
        if let Some(number) = self.streams.iter().max_by_key(|(_, stream)| unread(stream)).map(|(number, _)| *number) {
            self.remove(number);
        }
    }
}
