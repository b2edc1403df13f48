//! What the server does, without its store: it decides and dates by the same core.

use std::collections::HashMap;

use settled_protocol::merge::{Arrival, Clocks, Decision, Fit, HybridTime, Known, Name, OpId, Operation, Times};
use settled_sync::Schema;
use settled_sync::wire::{Answer, Applied, Became, ClockCheck, Pulled, Refusal, Sent, Upload, Uploaded};

pub const BOUND: u64 = 600_000;

pub struct Reference {
    pub schema: Schema,
    pub log: Vec<Applied>,
    answers: HashMap<OpId, (Sent, Became)>,
    times: HashMap<Name, Times>,
    latest: HybridTime,
}

impl Reference {
    pub fn new(schema: Schema) -> Self {
        Self { schema, log: Vec::new(), answers: HashMap::new(), times: HashMap::new(), latest: HybridTime::default() }
    }

    pub fn upload(&mut self, upload: &Upload, now: u64) -> Uploaded {
        let clocks = Clocks { theirs: upload.now, ours: now, bound: BOUND };
        let answers = upload.operations.iter().map(|sent| {
            let op_id = sent.operation.op_id;
            Answer { op_id, is: self.one(upload, sent, clocks) }
        });
        let answers = answers.collect();
        let clock = ClockCheck { ahead: clocks.ahead(), believed: clocks.believed(), bound: BOUND };
        Uploaded { answers, head: self.log.len() as u64, now, clock, most: 7 }
    }

    fn one(&mut self, upload: &Upload, sent: &Sent, clocks: Clocks) -> Became {
        let operation = &sent.operation;
        let arrival = Arrival {
            own: operation.device == upload.device,
            known: match self.answers.get(&operation.op_id) {
                None => Known::No,
                Some((known, became)) if known == sent => Known::Same(became.clone()),
                Some(_) => Known::Other,
            },
            fit: match self.schema.check(&operation.target, &operation.change) {
                Ok(()) => Fit::Fits,
                Err(unfit) if unfit.may_come() => Fit::Later(unfit.to_string()),
                Err(unfit) => Fit::Never(unfit.to_string()),
            },
            newer: upload.schema > self.schema.version,
        };
        let became = match arrival.decide() {
            Decision::NotYours => return Became::Refused { reason: Refusal::NotYours, message: String::new() },
            Decision::Conflict => return Became::Refused { reason: Refusal::Conflict, message: String::new() },
            Decision::Hold(message) => return Became::Held { message },
            Decision::Repeat(Became::Applied { cursor, time, redated, .. }) => {
                return Became::Applied { cursor, time, redated, repeated: true };
            }
            Decision::Repeat(answer) => return answer,
            Decision::Refuse(message) => Became::Refused { reason: Refusal::Unfit, message },
            Decision::Apply => self.take(sent, clocks),
        };
        self.answers.insert(operation.op_id, (sent.clone(), became.clone()));
        became
    }

    fn take(&mut self, sent: &Sent, clocks: Clocks) -> Became {
        let made = sent.operation.time;
        let times = self.times.entry(sent.operation.device.clone()).or_default();
        let given = clocks.redate(made, sent.after, times, self.latest);
        let (time, redated) = (given.unwrap_or(made), given.is_some());
        times.note(made, time);
        self.latest = self.latest.max(time);
        let cursor = self.log.len() as u64 + 1;
        self.log.push(Applied { cursor, operation: Operation { time, ..sent.operation.clone() }, redated });
        Became::Applied { cursor, time, redated, repeated: false }
    }

    pub fn pull(&self, after: u64, limit: usize) -> Pulled {
        let operations: Vec<_> = self.log.iter().skip(after as usize).take(limit).cloned().collect();
        let cursor = operations.last().map_or(after, |last| last.cursor);
        Pulled { operations, cursor, head: self.log.len() as u64 }
    }
}
