//! Messages between guards (or direct callers) and the tool.
//!
//! What goes to the tool keeps the order in which its sender sent it, for each key, unless a `reorderings` fault lets one
//! overtake another; what a dead process has sent has no order any more. Answers come in any order.

use settled_protocol::{Epoch, Observation, Reply, SealScope};

use super::{DEAD, Of, Packed, World};

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// An attempt on its way to the tool.
    Request {
        /// Its key (for a direct caller: the logical call).
        key: u8,
        /// For which logical call.
        call: u8,
        /// The attempt.
        of: Of,
        /// Who sent it.
        owner: u8,
        /// Whether a durable record told of it when it was sent.
        recorded: bool,
        /// Whether its connection has ended: no answer can come.
        cut: bool,
    },
    /// A request that the tool is working on (effects that last).
    Working {
        /// Its key.
        key: u8,
        /// For which logical call.
        call: u8,
        /// The attempt.
        of: Of,
        /// To whom the answer goes.
        owner: u8,
        /// The answer that it will give.
        result: u8,
    },
    /// The tool's answer.
    Reply {
        /// The key.
        key: u8,
        /// The attempt.
        of: Of,
        /// To whom.
        to: u8,
        /// The answer; `None`: the connection ended.
        reply: Option<Reply<u8>>,
    },
    /// An observation or a seal on its way to the tool.
    Question {
        /// The key.
        key: u8,
        /// The attempt that is asked about.
        of: Of,
        /// What is asked.
        asking: Asking,
        /// By whom.
        from: u8,
    },
    /// Its answer.
    Seen {
        /// The key.
        key: u8,
        /// The attempt that was asked about.
        of: Of,
        /// What was seen.
        observation: Observation<u8>,
        /// Echoed.
        conclusive: bool,
        /// To whom.
        to: u8,
    },
}

/// What a question asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asking {
    /// Whether it was applied.
    Observe {
        /// Whether "not applied" will count.
        conclusive: bool,
    },
    /// Whether it was applied; if not, it is never to be.
    Seal(SealScope),
}

impl Message {
    /// The key that it is about.
    pub fn key(&self) -> u8 {
        match *self {
            Message::Request { key, .. }
            | Message::Working { key, .. }
            | Message::Reply { key, .. }
            | Message::Question { key, .. }
            | Message::Seen { key, .. } => key,
        }
    }

    /// Whether it is on its way to the tool.
    pub(crate) fn is_bound_for_tool(&self) -> bool {
        matches!(self, Message::Request { .. } | Message::Question { .. })
    }

    /// The process that it comes from, or goes to.
    pub(crate) fn process(&self) -> u8 {
        match *self {
            Message::Request { owner, .. } | Message::Working { owner, .. } => owner,
            Message::Reply { to, .. } | Message::Seen { to, .. } => to,
            Message::Question { from, .. } => from,
        }
    }

    pub(crate) fn process_mut(&mut self) -> &mut u8 {
        match self {
            Message::Request { owner, .. } | Message::Working { owner, .. } => owner,
            Message::Reply { to, .. } | Message::Seen { to, .. } => to,
            Message::Question { from, .. } => from,
        }
    }

    /// Whether it may still lead to an answer of this attempt.
    pub(crate) fn may_answer(&self, its_key: u8, attempt: Of) -> bool {
        match *self {
            Message::Request { cut: true, .. } => false,
            Message::Request { key, of, .. } | Message::Working { key, of, .. } | Message::Reply { key, of, .. } => {
                key == its_key && of == attempt
            }
            Message::Question { .. } | Message::Seen { .. } => false,
        }
    }

    /// Whether this owner has a question about the key under way.
    pub(crate) fn asks_for(&self, its_key: u8, me: Epoch) -> bool {
        match *self {
            Message::Question { key, from: who, .. } | Message::Seen { key, to: who, .. } => {
                key == its_key && Epoch(who.into()) == me
            }
            _ => false,
        }
    }

    /// Messages of one lane keep their order; lanes are sorted. Everything that has no order is a lane of its own.
    fn lane(&self) -> (bool, u8, u8, Packed) {
        let cut = matches!(self, Message::Request { cut: true, .. });
        if self.is_bound_for_tool() && !cut && Epoch(self.process().into()) != DEAD {
            (false, self.key(), self.process(), Packed::default())
        } else {
            (true, 0, 0, Packed::from(*self))
        }
    }
}

impl World {
    /// Puts a message on its way. Equal sets of messages (in equal orders, where there is one) are equal states.
    pub(crate) fn send(&mut self, message: Message) {
        let lane = message.lane();
        let at = self.network.partition_point(|other| Message::from(*other).lane() <= lane);
        if self.network.len() == super::MESSAGES {
            self.wrongs.overflowed = true;
        } else {
            self.network.insert(at, message.into());
        }
    }

    /// Takes a message off the network.
    pub(crate) fn take(&mut self, message: &Message) {
        let packed = Packed::from(*message);
        if let Some(at) = self.network.iter().position(|other| *other == packed) {
            self.network.remove(at);
        }
    }

    /// Whether the message at this place would overtake one that its sender sent earlier.
    pub(crate) fn overtakes(&self, at: usize) -> bool {
        let message = self.network[at];
        let lane = Message::from(message).lane();
        let earlier = self.network[..at].iter().filter(|earlier| **earlier != message);
        !lane.0 && earlier.into_iter().any(|earlier| Message::from(*earlier).lane() == lane)
    }

    /// After processes were renamed.
    pub(crate) fn sort_network(&mut self) {
        // Stable, so that order within a lane stays.
        self.network.sort_by_key(|message| Message::from(*message).lane());
    }
}
