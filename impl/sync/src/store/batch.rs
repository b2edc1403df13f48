//! What becomes of uploads, by what is known of their operations, targets and devices. No input or output here: decided is in the
//! protocol core.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use settled_protocol::Digest;
use settled_protocol::merge::{
    Arrival, Clocks, Decision, Fit, HybridTime, Known, Merged, Name, OpId, Operation, Times,
};
use settled_protocol::record::Millis;

use super::StoreError;
use crate::schema::Schema;
use crate::wire::{Answer, Became, ClockCheck, Cursor, Refusal, Sent, Upload, Uploaded};

/// The most bytes of an operation, as JSON.
pub const LARGEST_OPERATION: usize = 64 << 10;

/// An upload on its way into the store.
pub(super) struct Received {
    upload: Upload,
    now: Millis,
    /// Each operation as JSON, and what it is known by.
    written: Vec<(String, Digest)>,
}

impl Received {
    pub fn new(upload: Upload, now: Millis) -> Result<Received, StoreError> {
        let write = |sent: &Sent| super::write(&sent.operation).map(|text| (Digest::of(text.as_bytes()), text));
        let written = upload.operations.iter().map(|sent| write(sent).map(|(digest, text)| (text, digest)));
        Ok(Received { written: written.collect::<Result<_, _>>()?, upload, now })
    }

    pub fn operations(&self) -> usize {
        self.upload.operations.len()
    }
}

/// What has to be read before uploads can be decided on.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    pub devices: BTreeSet<&'a Name>,
    pub op_ids: BTreeSet<OpId>,
    pub targets: BTreeSet<&'a Name>,
}

impl<'a> Wanted<'a> {
    pub fn of(uploads: &[&'a Received]) -> Wanted<'a> {
        let mut wanted = Wanted::default();
        for Received { upload, .. } in uploads {
            wanted.devices.insert(&upload.device);
            for Sent { operation, .. } in &upload.operations {
                wanted.op_ids.insert(operation.op_id);
                wanted.targets.insert(&operation.target);
            }
        }
        wanted
    }
}

/// What became of an operation before.
#[derive(Clone, Debug)]
pub(super) struct Before {
    pub fingerprint: Digest,
    pub is: Kept,
}

/// What is kept of what became of an operation.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Applied { cursor: Cursor, time: HybridTime, redated: bool },
    Refused { reason: Refusal, message: String },
}

/// A target's state.
pub(super) struct TargetRow {
    pub state: Merged,
    pub cursor: Cursor,
    pub changed: bool,
}

/// What is known of a device.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceRow {
    pub times: Times,
    pub seen: Millis,
    pub ahead: i64,
    pub believed: bool,
    pub applied: u64,
    pub redated: u64,
}

/// An operation to be stored.
pub(super) struct NewOperation {
    pub cursor: Cursor,
    pub op_id: OpId,
    pub fingerprint: Digest,
    pub device: Name,
    pub target: Name,
    pub time: HybridTime,
    pub redated: bool,
    pub text: String,
}

/// A refusal to be stored.
pub(super) struct NewRefusal {
    pub op_id: OpId,
    pub fingerprint: Digest,
    pub device: Name,
    pub reason: Refusal,
    pub message: String,
}

/// Uploads in one transaction.
pub(super) struct Batch {
    pub schema: Arc<Schema>,
    pub bound: Millis,
    pub most: usize,
    pub head: Cursor,
    /// The latest event time of all operations.
    pub latest: HybridTime,
    pub devices: BTreeMap<Name, DeviceRow>,
    pub known: HashMap<OpId, Before>,
    pub targets: BTreeMap<Name, TargetRow>,
    pub operations: Vec<NewOperation>,
    pub refusals: Vec<NewRefusal>,
}

impl Batch {
    /// Decides on an upload.
    pub fn apply(&mut self, received: &Received) -> Uploaded {
        let Received { upload, now, written } = received;
        let clocks = Clocks { theirs: upload.now, ours: *now, bound: self.bound };
        let clock = ClockCheck { ahead: clocks.ahead(), believed: clocks.believed(), bound: clocks.bound };
        let device = self.devices.entry(upload.device.clone()).or_default();
        (device.seen, device.ahead, device.believed) = (*now, clock.ahead, clock.believed);
        let decided = upload.operations.iter().zip(written).map(|(sent, (text, fingerprint))| Answer {
            op_id: sent.operation.op_id,
            is: self.decide(upload, sent, text, *fingerprint, &clocks),
        });
        Uploaded { answers: decided.collect(), head: self.head, now: *now, clock, most: self.most }
    }

    fn decide(&mut self, upload: &Upload, sent: &Sent, text: &str, fingerprint: Digest, clocks: &Clocks) -> Became {
        let operation = &sent.operation;
        let arrival = Arrival {
            own: operation.device == upload.device,
            known: self.known.get(&operation.op_id).map_or(Known::No, |before| before.compare(fingerprint)),
            fit: self.fit(operation, text),
            newer: upload.schema > self.schema.version,
        };
        match arrival.decide() {
            Decision::NotYours => {
                let message =
                    format!("`{}` has made it, and has to send it: `{}` can't", operation.device, upload.device);
                Became::Refused { reason: Refusal::NotYours, message }
            }
            Decision::Conflict => {
                let message = "another operation has this `op_id`: a name is given once, and never again".to_owned();
                Became::Refused { reason: Refusal::Conflict, message }
            }
            Decision::Repeat(answer) => answer,
            Decision::Apply => match self.take(sent, text, fingerprint, clocks) {
                Ok(applied) => applied,
                Err(misfit) => self.refuse(operation, fingerprint, (Refusal::Unfit, misfit)),
            },
            Decision::Hold((_, message)) => {
                let (theirs, ours) = (upload.schema, self.schema.version);
                let message = format!(
                    "{message} in version {ours} of the schema, which this server has; the device has {theirs}"
                );
                Became::Held { message }
            }
            Decision::Refuse(why) => self.refuse(operation, fingerprint, why),
        }
    }

    fn fit(&self, operation: &Operation, text: &str) -> Fit<(Refusal, String)> {
        if text.len() > LARGEST_OPERATION {
            let message = format!("it has {} bytes, and at most {LARGEST_OPERATION} are taken: split it", text.len());
            return Fit::Never((Refusal::TooLarge, message));
        }
        match self.schema.check(&operation.target, &operation.change) {
            Ok(()) => Fit::Fits,
            Err(unfit) if unfit.may_come() => Fit::Later((Refusal::Unfit, unfit.to_string())),
            Err(unfit) => Fit::Never((Refusal::Unfit, unfit.to_string())),
        }
    }

    fn refuse(&mut self, operation: &Operation, fingerprint: Digest, why: (Refusal, String)) -> Became {
        let (op_id, device, (reason, message)) = (operation.op_id, operation.device.clone(), why);
        self.refusals.push(NewRefusal { op_id, fingerprint, device, reason, message: message.clone() });
        let is = Kept::Refused { reason, message: message.clone() };
        self.known.insert(op_id, Before { fingerprint, is });
        Became::Refused { reason, message }
    }

    /// Applies an operation: gives it its time and its cursor, and joins it into its target's state.
    fn take(&mut self, sent: &Sent, text: &str, fingerprint: Digest, clocks: &Clocks) -> Result<Became, String> {
        let mut operation = sent.operation.clone();
        let device = self.devices.entry(operation.device.clone()).or_default();
        let given = clocks.redate(operation.time, sent.after, &device.times, self.latest);
        operation.time = given.unwrap_or(operation.time);
        let (time, redated) = (operation.time, given.is_some());
        let text = match redated {
            true => super::write(&operation).map_err(|error| error.to_string())?,
            false => text.to_owned(),
        };
        let rule = self.schema.rule(&operation.target).ok_or("there is no such target")?;
        let target = self.targets.entry(operation.target.clone());
        let target = target.or_insert_with(|| TargetRow { state: rule.nothing(), cursor: 0, changed: false });
        target.state.widen(rule);
        target.state.apply(&operation).map_err(|misfit| misfit.to_string())?;
        self.head += 1;
        (target.cursor, target.changed) = (self.head, true);
        device.times.note(sent.operation.time, time);
        device.applied += 1;
        device.redated += u64::from(redated);
        self.latest = self.latest.max(time);
        let is = Kept::Applied { cursor: self.head, time, redated };
        self.known.insert(operation.op_id, Before { fingerprint, is });
        let Operation { op_id, device, target, .. } = operation;
        self.operations.push(NewOperation {
            cursor: self.head,
            op_id,
            fingerprint,
            device,
            target,
            time,
            redated,
            text,
        });
        Ok(Became::Applied { cursor: self.head, time, redated, repeated: false })
    }
}

impl Before {
    fn compare(&self, fingerprint: Digest) -> Known<Became> {
        if self.fingerprint != fingerprint {
            return Known::Other;
        }
        Known::Same(match self.is.clone() {
            Kept::Applied { cursor, time, redated } => Became::Applied { cursor, time, redated, repeated: true },
            Kept::Refused { reason, message } => Became::Refused { reason, message },
        })
    }
}
