//! The tool's side: what is delivered to it, and what comes back.

use settled_model::description::Kind;

use super::{AtTool, Back, InTransit, Parted, Stage};
use crate::wire::{Delivery, Frame, How, Reply, Role, ToPart, Which};

impl Stage {
    /// Delivers a message to the tool, and waits until it has dealt with it (or has come to where it was to stop). Returns the
    /// delivery's number.
    pub(super) async fn deliver(&mut self, what: InTransit, how: How) -> Result<u64, Parted> {
        let number = self.number();
        let delivery = Delivery { number, frame: what.frame.clone(), how, now: self.units, theirs: 0 };
        self.note(format!("tool: gets {:?}, {how:?}", what.frame));
        self.at_tool.insert(number, AtTool { what, stopped: false, working: false });
        self.hand_to(Role::Tool, delivery);
        let lenient = std::mem::replace(&mut self.lenient, false);
        let done = self
            .until(
                || "the tool deals with what it gets".to_owned(),
                |stage| match stage.at_tool.get(&number) {
                    None => Some(()),
                    Some(at) if at.stopped || at.working => Some(()),
                    Some(_) => None,
                },
            )
            .await;
        self.lenient = lenient;
        done?;
        self.look_at_effects();
        Ok(number)
    }

    /// The tool's answer to a delivery has come; `None`: its connection has ended.
    pub(super) fn delivered(&mut self, number: u64, reply: Option<Reply>) {
        let Some(AtTool { what, .. }) = self.at_tool.remove(&number) else { return };
        self.note(format!("tool: answers {reply:?} to attempt {} (k{})", what.which.attempt, what.which.key));
        let question = matches!(what.frame, Frame::Question { .. });
        if what.connection == 0 || what.cut {
            return;
        }
        self.back.push(Back { connection: what.connection, which: what.which, from: what.from, question, reply });
    }

    pub(super) fn begins_work(&mut self, number: u64) {
        let same_resource = self.rules.description.caller.same_resource;
        let call_of = |what: &InTransit| match what.frame {
            Frame::Request { call, .. } => Some(call),
            _ => None,
        };
        let Some(call) = self.at_tool.get(&number).and_then(|at| call_of(&at.what)) else { return };
        let overlaps = |at: &AtTool| at.working && (same_resource || call_of(&at.what) == Some(call));
        self.evidence.overlapped |= self.at_tool.values().any(overlaps);
        if let Some(at) = self.at_tool.get_mut(&number) {
            at.working = true;
        }
    }

    /// The tool ends work that lasts.
    pub(super) async fn end_work(&mut self, number: u64, how: How) -> Result<(), Parted> {
        self.say(Role::Tool, ToPart::Finish { delivery: number, how });
        let lenient = std::mem::replace(&mut self.lenient, false);
        if let Some(at) = self.at_tool.get_mut(&number) {
            at.stopped = false;
        }
        let done = self
            .until(
                || "the tool ends its work".to_owned(),
                |stage| stage.at_tool.get(&number).is_none_or(|at| at.stopped).then_some(()),
            )
            .await;
        self.lenient = lenient;
        done
    }

    /// Whoever waits for it sees the connection end.
    pub(super) fn tool_died(&mut self) {
        let mut all: Vec<u64> = self.at_tool.keys().copied().collect();
        all.sort_unstable();
        for number in all {
            self.delivered(number, None);
        }
    }

    /// The first message on its way that is this one.
    pub(super) fn find_in_transit(&self, which: &WhichSent) -> Option<usize> {
        self.in_transit.iter().position(|sent| which.is(sent))
    }

    /// Whether an attempt could still take effect, were it to arrive now.
    pub(super) fn can_apply(&self, which: &Which) -> bool {
        if self.rules.description.tool.kind != Kind::Sealable {
            return true;
        }
        let applied = |line: &crate::part::Line| matches!(line, crate::part::Line::Effect { which: other, .. } if other.key == which.key);
        let sealed = |line: &crate::part::Line| {
            matches!(line, crate::part::Line::Sealed { key, generation, up_to }
                if *key == which.key && *generation == which.generation && *up_to >= which.attempt)
        };
        !self.evidence.lines.iter().any(|line| applied(line) || sealed(line))
    }

    /// Reads the tool's own file.
    pub(super) fn look_at_effects(&mut self) {
        let lines = crate::part::read_effects(&self.directory.join("effects.jsonl"));
        let (gone, guarded) = (self.evidence.forgotten.clone(), !self.direct());
        let before = self.evidence.lines.len();
        for line in &lines[before.min(lines.len())..] {
            if let crate::part::Line::Effect { which, call, .. } = line {
                let again = self.evidence.effects_of(*call) > 0;
                self.evidence.slipped_in |= again && gone.contains(&which.key);
                let name = (which.key, which.generation, which.attempt);
                self.evidence.unrecorded |= guarded && !self.evidence.recorded.contains(&name);
            }
            self.evidence.lines.push(line.clone());
        }
    }
}

/// A message on its way to the tool, as a schedule names it.
#[derive(Clone, Copy, Debug)]
pub struct WhichSent {
    pub key: u8,
    pub attempt: u32,
    /// `None`: either.
    pub cut: Option<bool>,
    pub question: bool,
}

impl WhichSent {
    fn is(&self, sent: &InTransit) -> bool {
        sent.which.key == self.key
            && sent.which.attempt == self.attempt
            && self.cut.is_none_or(|cut| cut == sent.cut)
            && matches!(sent.frame, Frame::Question { .. }) == self.question
    }
}
