//! Opening streams: by a request, or to listen.

use bytes::Bytes;
use tokio::time::Instant;

use super::{Asked, Inner, Kind, Reader, Stream, Streams, Token, What};
use crate::messages::frame::{Frame, IdKey, parse_valid};
use crate::messages::splice::{self, quoted};

/// Where the answers to a message will come out.
pub(crate) struct Asking {
    pub(crate) reader: Reader,
    /// The message as the server is to get it.
    pub(crate) line: Bytes,
    /// The ids of its requests that the server knows.
    pub(crate) ids: Vec<String>,
}

/// A stream can't be taken up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotThere {
    /// No stream of this session has given out such an id.
    Unknown,
    /// What came after it is no longer kept.
    Dropped,
}

impl Streams {
    /// Opens a stream for the answers to a message that holds requests. An id or a progress token that another request
    /// in this session has is replaced for the server, and put back in its answers; in a session that clients share,
    /// every one is.
    pub(crate) fn ask(&self, line: &Bytes, frame: &Frame<'_>) -> Asking {
        let mut inner = self.inner();
        let members: Vec<(&str, Frame<'_>)> = match frame {
            Frame::Batch(members) => members.iter().map(|member| (*member, parse_valid(member))).collect(),
            _ => Vec::new(),
        };
        let is_batch = !members.is_empty();
        inner.made += 1;
        let stream = inner.made;
        let mut ids = Vec::new();
        let mut renamed = None;
        if is_batch {
            let sent: Vec<Option<String>> = members
                .iter()
                .map(|(text, frame)| inner.request(stream, text, frame, self.stateless, &mut ids))
                .collect();
            if sent.iter().any(Option::is_some) {
                let texts: Vec<&str> =
                    sent.iter().zip(&members).map(|(sent, (text, _))| sent.as_deref().unwrap_or(text)).collect();
                renamed = Some(format!("[{}]", texts.join(",")));
            }
        } else if let Ok(text) = str::from_utf8(line) {
            renamed = inner.request(stream, text, frame, self.stateless, &mut ids);
        }
        let reader = inner.open(stream, Kind::Answers(ids.len()));
        Asking { reader, line: renamed.map_or_else(|| line.clone(), Bytes::from), ids }
    }

    /// Opens a stream to listen on. `None`: nothing more will be said.
    pub(crate) fn listen(&self) -> Option<Reader> {
        let mut inner = self.inner();
        if inner.over {
            return None;
        }
        inner.made += 1;
        let stream = inner.made;
        Some(inner.open(stream, Kind::Listening))
    }

    /// Goes on with a stream after the event with that id. A reader that it still has is replaced.
    ///
    /// # Errors
    /// [`NotThere`].
    pub(crate) fn resume(&self, last: &str) -> Result<Reader, NotThere> {
        let parsed =
            last.split_once('-').and_then(|(stream, number)| Some((stream.parse().ok()?, number.parse().ok()?)));
        let (number, last): (u64, u64) = parsed.ok_or(NotThere::Unknown)?;
        let mut inner = self.inner();
        inner.made += 1;
        let reader = inner.made;
        let Some(stream) = inner.streams.get_mut(&number).filter(|stream| stream.named && last < stream.end()) else {
            // Streams are numbered in order, so one that is not there any more can be told from one that never was.
            return Err(if number < reader { NotThere::Dropped } else { NotThere::Unknown });
        };
        let dropped = last + 1 < stream.first;
        if dropped && stream.kind != Kind::Listening {
            return Err(NotThere::Dropped);
        }
        if dropped {
            tracing::warn!("a client comes back for messages that are no longer kept");
        }
        stream.next = (last + 1).max(stream.first);
        stream.reader = Some(reader);
        stream.since = Instant::now();
        stream.wake();
        inner.take_waiting(number);
        Ok(Reader { stream: number, number: reader })
    }
}

impl Inner {
    fn open(&mut self, stream: u64, kind: Kind) -> Reader {
        self.made += 1;
        let number = self.made;
        self.streams.insert(stream, Stream::new(kind, number));
        self.take_waiting(stream);
        Reader { stream, number }
    }

    /// What waited goes to this stream.
    fn take_waiting(&mut self, stream: u64) {
        if self.over {
            return;
        }
        self.waiting_bytes = 0;
        for data in std::mem::take(&mut self.waiting) {
            self.push(stream, data, false, None);
        }
    }

    /// Notes a request; its text, if another one than the client's is to be sent.
    fn request(
        &mut self,
        stream: u64,
        text: &str,
        frame: &Frame<'_>,
        always: bool,
        ids: &mut Vec<String>,
    ) -> Option<String> {
        let Frame::Request { id, method, params } = frame else { return None };
        let renamed = always || self.asked.contains_key(&IdKey::new(id));
        let sent_id = if renamed { self.fresh(always) } else { (*id).to_owned() };
        let token = params.and_then(|params| splice::get(splice::get(params, "_meta")?, "progressToken"));
        let mut sent_token = None;
        if let Some(token) = token {
            let taken = always || self.tokens.contains_key(&IdKey::new(token));
            let (name, own) =
                if taken { (self.fresh(always), Some(token.to_owned())) } else { (token.to_owned(), None) };
            self.tokens.insert(IdKey::new(&name), Token { stream, own });
            sent_token = Some((name, taken));
        }
        let mut sent = if renamed { splice::set(text, "id", &sent_id) } else { None };
        if let Some((name, true)) = &sent_token {
            let text = sent.as_deref().unwrap_or(text);
            sent = with_token(text, name).or(sent);
        }
        let what = match &**method {
            "initialize" => What::Initialize,
            "subscriptions/listen" => What::Subscription,
            _ => What::Other,
        };
        let token = sent_token.map(|(name, _)| IdKey::new(&name));
        ids.push(sent_id.clone());
        let key = IdKey::new(&sent_id);
        self.asked.insert(key, Asked { stream, sent: sent_id, own: (*id).to_owned(), token, what });
        sent
    }

    /// An id that nobody uses: a number where all ids are made here, else a text that no client would choose.
    fn fresh(&mut self, always: bool) -> String {
        self.made += 1;
        if always { self.made.to_string() } else { quoted(&format!("settled-http-{}", self.made)) }
    }
}

fn with_token(text: &str, token: &str) -> Option<String> {
    let params = splice::get(text, "params")?;
    let meta = splice::set(splice::get(params, "_meta")?, "progressToken", token)?;
    splice::set(text, "params", &splice::set(params, "_meta", &meta)?)
}
