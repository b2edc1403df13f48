//! Watches a stream go by.

use settled_http::sse::Parser;

use super::{Preset, Says, Usage};

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// All of it came.
    Whole,
    /// It broke off.
    Cut,
    /// It told of an error, and what was done before that is not known.
    WentWrong,
}

/// Looks at the bytes of a stream as they come: how much of them may be passed on, whether the end has come, what it cost.
///
/// An event is passed on when all of it is there, which is when a client can make something of it. The last event of a
/// whole stream, and what comes after it, is held: nobody shall have seen a whole answer that is not recorded yet.
#[derive(Debug)]
pub(crate) struct Watcher {
    preset: Preset,
    parser: Parser,
    held: usize,
    stands: Stands,
    usage: Usage,
}

/// What is known of the stream so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    Open,
    Whole,
    WentWrong,
    /// An event was too long to be read, so nothing is known of what comes.
    Unreadable,
}

impl Watcher {
    /// `longest`: how many bytes of data an event may have.
    pub(crate) fn new(preset: Preset, longest: usize) -> Watcher {
        Watcher { preset, parser: Parser::new(longest), held: 0, stands: Stands::Open, usage: Usage::default() }
    }

    /// Takes the next bytes.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.stands {
                Stands::Whole => {
                    self.held += bytes.len();
                    return;
                }
                Stands::WentWrong | Stands::Unreadable => {
                    self.held = 0;
                    return;
                }
                Stands::Open => self.line(&mut bytes),
            }
        }
    }

    /// Takes the bytes up to the end of a line, or all of them.
    fn line(&mut self, bytes: &mut &[u8]) {
        let all = *bytes;
        let end = all.iter().position(|byte| matches!(byte, b'\n' | b'\r')).map_or(all.len(), |at| at + 1);
        let (mut line, rest) = all.split_at(end);
        *bytes = rest;
        match self.parser.next(&mut line) {
            Ok(Some(event)) => {
                let (says, usage) = self.preset.reads(&event);
                self.usage.update(usage);
                match says {
                    Says::GoesOn => self.held = 0,
                    Says::Whole => {
                        self.held += end;
                        self.stands = Stands::Whole;
                    }
                    Says::WentWrong => {
                        self.held = 0;
                        self.stands = Stands::WentWrong;
                    }
                }
            }
            Ok(None) => self.held = if self.parser.is_between() { 0 } else { self.held + end },
            Err(_) => {
                self.stands = Stands::Unreadable;
                self.held = 0;
            }
        }
    }

    /// How many of the bytes that came last are not to be passed on yet.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Whether the event that ends the stream has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.stands == Stands::Whole
    }

    /// What it cost, as far as it was told.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// How the stream ended, if nothing of it comes any more. That the connection ended in good order does not make it
    /// whole: a proxy in between may have done that. A last event is taken for one also without the empty line after it.
    pub(crate) fn end(&mut self) -> StreamEnd {
        if self.stands == Stands::Open {
            let mut ends = &b"\n\n"[..];
            while self.stands == Stands::Open && !ends.is_empty() {
                self.line(&mut ends);
            }
        }
        match self.stands {
            Stands::Whole => StreamEnd::Whole,
            Stands::WentWrong => StreamEnd::WentWrong,
            Stands::Open | Stands::Unreadable => StreamEnd::Cut,
        }
    }
}
