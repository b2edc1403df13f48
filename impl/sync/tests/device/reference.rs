//! What the server is to do, in the fewest words: the tests of devices hold against it, without its store.

use std::collections::HashMap;

use settled_protocol::merge::{HybridTime, Name, OpId, Operation};
use settled_sync::Schema;
use settled_sync::wire::{Answer, Applied, Became, ClockCheck, Pulled, Refusal, Sent, Upload, Uploaded};

pub const BOUND: u64 = 600_000;

pub struct Reference {
    pub schema: Schema,
    pub log: Vec<Applied>,
    answers: HashMap<OpId, (Sent, Became)>,
    last: HashMap<Name, HybridTime>,
}

impl Reference {
    pub fn new(schema: Schema) -> Self {
        Self { schema, log: Vec::new(), answers: HashMap::new(), last: HashMap::new() }
    }

    pub fn upload(&mut self, upload: &Upload, now: u64) -> Uploaded {
        let ahead = upload.now as i64 - now as i64;
        let believed = ahead.unsigned_abs() <= BOUND;
        let answers = upload.operations.iter().map(|sent| {
            let op_id = sent.operation.op_id;
            Answer { op_id, is: self.one(upload, sent, believed, now) }
        });
        let answers = answers.collect();
        let clock = ClockCheck { ahead, believed, bound: BOUND };
        Uploaded { answers, head: self.log.len() as u64, now, clock, most: 7 }
    }

    fn one(&mut self, upload: &Upload, sent: &Sent, believed: bool, now: u64) -> Became {
        match self.answers.get(&sent.operation.op_id) {
            Some((known, _)) if known != sent => {
                return Became::Refused { reason: Refusal::Conflict, message: String::new() };
            }
            Some((_, Became::Applied { cursor, time, redated, .. })) => {
                return Became::Applied { cursor: *cursor, time: *time, redated: *redated, repeated: true };
            }
            Some((_, became)) => return became.clone(),
            None => {}
        }
        if let Err(unfit) = self.schema.check(&sent.operation.target, &sent.operation.change) {
            if unfit.may_come() && upload.schema > self.schema.version {
                return Became::Held { message: unfit.to_string() };
            }
            let became = Became::Refused { reason: Refusal::Unfit, message: unfit.to_string() };
            self.answers.insert(sent.operation.op_id, (sent.clone(), became.clone()));
            return became;
        }
        let made = sent.operation.time;
        let last = self.last.entry(upload.device.clone()).or_default();
        let far = made.millis > now + BOUND;
        let time = if believed && !far {
            made
        } else {
            made.redated(if believed { made.millis } else { upload.now }, now, sent.after.max(*last))
        };
        *last = (*last).max(time);
        let redated = time != made;
        let cursor = self.log.len() as u64 + 1;
        self.log.push(Applied { cursor, operation: Operation { time, ..sent.operation.clone() }, redated });
        let became = Became::Applied { cursor, time, redated, repeated: false };
        self.answers.insert(sent.operation.op_id, (sent.clone(), became.clone()));
        became
    }

    pub fn pull(&self, after: u64, limit: usize) -> Pulled {
        let operations: Vec<_> = self.log.iter().skip(after as usize).take(limit).cloned().collect();
        let cursor = operations.last().map_or(after, |last| last.cursor);
        Pulled { operations, cursor, head: self.log.len() as u64 }
    }
}
