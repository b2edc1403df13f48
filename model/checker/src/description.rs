//! A protocol's description: what a designer writes in TOML, and what the world is built from.

mod errors;
mod resources;

use serde::{Deserialize, Serialize};
use settled_devices_model::Devices;
use settled_explorer::Faults;
use settled_protocol::Rules;

pub use errors::{InDoubt, Rejects};
pub use resources::{Frees, Resources};

/// A protocol: where keys come from, what is recorded when, what an unknown outcome leads to, what the tool can do,
/// which faults may happen, and how often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Description {
    /// A short name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Where it comes from, and what was simplified.
    #[serde(default)]
    pub source: String,
    /// The callers.
    #[serde(default)]
    pub caller: CallerRules,
    /// What stands between callers and tool.
    #[serde(default)]
    pub guard: GuardRules,
    /// What the guard keeps its records in.
    #[serde(default)]
    pub ledger: LedgerRules,
    /// What the tool declares and does.
    #[serde(default)]
    pub tool: ToolRules,
    /// What must not be exceeded.
    #[serde(default)]
    pub budget: BudgetRules,
    /// Devices that act offline and merge, instead of callers, guard and tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<Devices>,
    /// How often each fault may happen in one run.
    #[serde(default)]
    pub faults: Faults,
}

/// What callers do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct CallerRules {
    /// How many logical calls are meant (1 to 3).
    pub operations: u8,
    /// How often one logical call may be made in all, retries included (1 to 4).
    pub calls: u8,
    /// Where keys come from.
    pub key: KeySource,
    /// Whether all logical calls have the same arguments.
    pub same_arguments: bool,
    /// Whether all logical calls are about one resource.
    pub same_resource: bool,
    /// Whether the logical calls are steps of one workflow: each begins when the one before it has been answered.
    pub sequential: bool,
    /// When a workflow's progress becomes durable at the caller.
    pub checkpoint: Checkpoint,
    /// What follows when no answer came, or the connection ended.
    pub after_silence: Again,
    /// What follows when the caller is told that it failed.
    pub after_failed: Again,
    /// What follows when the caller has cancelled.
    pub after_cancel: Again,
    /// What follows when the callers' process was killed and is started again.
    pub after_crash: Again,
    /// Whether a call after a definite failure comes with a new key (if the caller makes the keys).
    pub new_key_after_failure: bool,
    /// How many units of time after its first call a caller may still call again; 0: any.
    pub horizon: u8,
}

impl Default for CallerRules {
    fn default() -> Self {
        CallerRules {
            operations: 1,
            calls: 2,
            key: KeySource::Caller,
            same_arguments: false,
            same_resource: false,
            sequential: false,
            checkpoint: Checkpoint::PerAnswer,
            after_silence: Again::Retry,
            after_failed: Again::Retry,
            after_cancel: Again::Stop,
            after_crash: Again::Retry,
            new_key_after_failure: true,
            horizon: 0,
        }
    }
}

/// Where a call's key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeySource {
    /// The caller's own, the same for every retry.
    Caller,
    /// A new one for every attempt to call.
    PerCall,
    /// The arguments.
    Arguments,
    /// One key, wrongly used for every logical call.
    Reused,
}

/// Whether a caller calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Again {
    /// It calls again.
    Retry,
    /// It leaves it at that.
    Stop,
}

/// When the callers' process remembers durably that a step was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoint {
    /// After each answer, before the next step begins.
    PerAnswer,
    /// After each answer, while the next step is already under way.
    Background,
    /// Once, when all steps have been answered.
    AtEnd,
}

/// What stands between callers and tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct GuardRules {
    /// How many guard processes share the ledger (1 to 3); 0: callers talk to the tool directly.
    pub processes: u8,
    /// When the intent is recorded.
    pub intent: Intent,
    /// Whether a new operation is created and dispatched in one write, or in two.
    pub start: StartRule,
    /// How a record is changed.
    pub claim: Claim,
    /// When callers are told `done`.
    pub answers: Answers,
    /// What a call is told whose operation is under way.
    pub in_progress: InProgress,
    /// Whether a guard ever stops waiting for an answer, and goes on with what a dead one has left.
    pub gives_up: bool,
    /// What a repeated call with the same key means once the operation has ended.
    pub repeat: RepeatRule,
    /// How many units of time after it was settled a record is kept; 0: for ever.
    pub window: u8,
    /// What the guard adds to the time of a re-send before it believes that the tool still remembers the key.
    pub margin: u8,
    /// What happens to calls of one resource.
    pub resources: Resources,
    /// When a resource is free for the next one in its line.
    pub frees: Frees,
    /// What an error or a silence is taken for that proves nothing.
    pub in_doubt: InDoubt,
    /// What the guard does while it can't write.
    pub without_ledger: WithoutLedger,
    /// Whether one dispatch is at most one delivery (rule 1). A transport that duplicates can't promise it.
    pub single_delivery: bool,
    /// The rules of the design that are kept. All of them, unless a protocol is to be shown failing.
    pub rules: Rules,
}

impl Default for GuardRules {
    fn default() -> Self {
        GuardRules {
            processes: 1,
            intent: Intent::BeforeSend,
            start: StartRule::OneWrite,
            claim: Claim::CompareAndSet,
            answers: Answers::AfterStore,
            in_progress: InProgress::Waits,
            gives_up: true,
            repeat: RepeatRule::Replay,
            window: 0,
            margin: 1,
            resources: Resources::Ignored,
            frees: Frees::WhenSettled,
            in_doubt: InDoubt::Unknown,
            without_ledger: WithoutLedger::Refuses,
            single_delivery: true,
            rules: Rules::SOUND,
        }
    }
}

/// When a guard records its intent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Intent {
    /// Before the send, as it must.
    BeforeSend,
    /// Together with the outcome: before that, it is in the guard's memory only.
    AfterEffect,
}

/// How a new operation is first written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartRule {
    /// Created and dispatched in one write.
    OneWrite,
    /// Created first, dispatched by a second write.
    TwoWrites,
}

/// How a record is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// By compare-and-set on its version.
    CompareAndSet,
    /// It is read, and some time later written, whatever has happened in between.
    ReadThenWrite,
}

/// When callers are told `done`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answers {
    /// After the write that the answer rests on.
    AfterStore,
    /// As soon as the call has been sent.
    AtDispatch,
}

/// What a call is told whose operation is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InProgress {
    /// Nothing yet: it waits for the answer.
    Waits,
    /// `in progress`, and it may ask again, as often as it likes.
    Told,
}

/// What a repeated call with the same key means once the operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepeatRule {
    /// A replay of the recorded verdict (of a success only, if the arguments are the key).
    Replay,
    /// A replay of a success; after any other end it is a new operation.
    NewAfterFailure,
    /// A new operation once an answer has been delivered.
    NewAfterDelivery,
}

/// What a guard does while it can't write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithoutLedger {
    /// It serves no call.
    Refuses,
    /// It lets calls through, unrecorded.
    SendsAnyway,
}

/// What the guard keeps its records in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct LedgerRules {
    /// What a write is once it is acknowledged.
    pub acknowledged: Acknowledged,
    /// What is found of a write in whose middle power failed.
    pub torn: Torn,
    /// What follows a failed sync.
    pub after_sync_error: AfterSyncError,
    /// How long a record is kept.
    pub keeps: Keeps,
}

impl Default for LedgerRules {
    fn default() -> Self {
        LedgerRules {
            acknowledged: Acknowledged::Durable,
            torn: Torn::Detected,
            after_sync_error: AfterSyncError::Stops,
            keeps: Keeps::Forever,
        }
    }
}

/// What a write is once it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acknowledged {
    /// Durable, on every replica that may take over.
    Durable,
    /// In memory: on disk some time later.
    Unsynced,
    /// On one server: on its replica some time later.
    Unreplicated,
}

/// What is found of a write in whose middle power failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Torn {
    /// A checksum tells: the record is as it was before.
    Detected,
    /// The record is gone.
    Erases,
}

/// What follows a failed sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterSyncError {
    /// The process ends, and what was not synced does not count.
    Stops,
    /// The sync is tried again; it succeeds, and nothing is on disk.
    CarriesOn,
}

/// How long a store keeps a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeps {
    /// As long as anyone may ask.
    Forever,
    /// For a time of its own, which may be over at any moment.
    Shortly,
}

/// What the tool can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ToolRules {
    /// Its kind.
    pub kind: Kind,
    /// What the guard takes it for; as it is, if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<Kind>,
    /// Whether it declares that its errors mean "it did not happen".
    pub errors_final: bool,
    /// What it says when it refuses a request before it runs (`rejections`).
    pub rejects: Rejects,
    /// How many attempts an operation may have.
    pub attempts: u8,
    /// How many observations may tell nothing before a person is asked.
    pub checks: u8,
    /// How many units of time after its first use the tool forgets a key; 0: never.
    pub remembers: u8,
    /// Whether the tool may forget a key at any moment.
    pub keeps: Keeps,
    /// Whether effects last, so that two of them can overlap.
    pub lasting: bool,
    /// Observable: how many units of time after its send an effect can still appear.
    pub settling: u8,
}

impl Default for ToolRules {
    fn default() -> Self {
        ToolRules {
            kind: Kind::Opaque,
            declared: None,
            errors_final: false,
            rejects: Rejects::ForGood,
            attempts: 2,
            checks: 2,
            remembers: 0,
            keeps: Keeps::Forever,
            lasting: false,
            settling: 1,
        }
    }
}

/// The tool kinds of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Nothing can be found out about an attempt.
    Opaque,
    /// Can be asked "applied?".
    Observable,
    /// Applies once, can be told never to apply.
    Sealable,
    /// Applies a key once, as long as it remembers it.
    Deduplicates,
    /// Effect and record commit together.
    Transactional,
    /// A second application changes nothing, if no other operation on its resource came in between.
    Idempotent,
}

/// What must not be exceeded; 0: no such limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BudgetRules {
    /// How often one logical call may be sent to the tool.
    pub operation: u8,
    /// How often all logical calls together may be sent to the tool.
    pub fleet: u8,
    /// How many units of time after it was settled a record may remain.
    pub memory: u8,
}
