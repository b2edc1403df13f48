//! What is done to a framework: one fault, and how its run is gone on with.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// What the framework is asked to do. Every step is one call of the tool; every step of a run should take effect once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// `a`, then `b`, then `c`.
    Steps,
    /// `a`, then wait for a person's approval, then `b`; denied, `b` is never done.
    Approval,
    /// `a`, then `b` and `c` side by side, where `c` waits for an approval first.
    Parallel,
}

impl Workload {
    /// Its steps, in order.
    #[must_use]
    pub const fn steps(self) -> &'static [&'static str] {
        match self {
            Self::Steps | Self::Parallel => &["a", "b", "c"],
            Self::Approval => &["a", "b"],
        }
    }

    /// Its name in an adapter's environment and in `adapter.toml`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::Approval => "approval",
            Self::Parallel => "parallel",
        }
    }
}

macro_rules! cells {
    ($($(#[doc = $says:literal])+ $variant:ident $name:literal $workload:ident;)*) => {
        /// One column of the matrix. "Killed" is SIGKILL of the framework's processes, and a resume of the run afterwards.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum Cell {
            $($(#[doc = $says])+ #[serde(rename = $name)] $variant,)*
        }

        impl Cell {
            /// All of them, in the order of the matrix.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name on the command line, in reports and in results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What is done, in words.
            #[must_use]
            pub const fn says(self) -> &'static str {
                match self { $(Self::$variant => concat!($($says),+).trim_ascii(),)* }
            }

            /// What the framework is asked to do meanwhile.
            #[must_use]
            pub const fn workload(self) -> Workload {
                match self { $(Self::$variant => Workload::$workload,)* }
            }
        }
    };
}

cells! {
    /// Nothing goes wrong.
    NoFault "no-fault" Steps;
    /// Killed when the tool has been called for `b` and before its effect, which then never happens.
    KillBeforeEffect "kill-before-effect" Steps;
    /// Killed after the effect of `b` and before its answer.
    KillAfterEffect "kill-after-effect" Steps;
    /// Killed after the answer to `b`, at the framework's next write to its state, before that is carried out.
    KillAfterAnswer "kill-after-answer" Steps;
    /// Killed when the tool has been called for `c` and before its effect: whatever is written between two steps is written.
    KillAfterRecord "kill-after-record" Steps;
    /// Killed at the k-th write, sync or rename in its state directory, for each k (or a sample of them).
    KillAtWrites "kill-at-writes" Steps;
    /// Killed at a random moment of its run.
    KillAtRandom "kill-at-random" Steps;
    /// The effect of `b` happens, and its answer is lost: the connection ends.
    AnswerLost "answer-lost" Steps;
    /// The effect of `b` happens, and its answer is lost, each time its caller tries again, until that gives up (five times at most); then
    /// it is resumed, and answered.
    AnswersLost "answers-lost" Steps;
    /// The tool takes longer for `b` than its caller waits, and then the effect happens.
    LateEffect "late-effect" Steps;
    /// Cancelled (SIGINT) while `b` is under way, whose effect then happens; resumed afterwards.
    Cancelled "cancelled" Steps;
    /// The tool's process is killed after the effect of `b` and before its answer, and started again.
    ToolRestarted "tool-restarted" Steps;
    /// The request for `b` reaches the tool twice.
    DeliveredTwice "delivered-twice" Steps;
    /// From its first write after the effect of `b` on, the framework's state directory is full; then there is room again, and it is resumed.
    DiskFull "disk-full" Steps;
    /// From its first write after the effect of `b` on, the framework's state directory is read-only; then it is not, and it is resumed.
    DiskReadOnly "disk-read-only" Steps;
    /// Killed in the middle of the last write to its state before `c` is called: half of that write is on the disk.
    TornWrite "torn-write" Steps;
    /// Stopped (SIGSTOP) after the effect of `b`, resumed by another process, and woken up later.
    StoppedAndWoken "stopped-and-woken" Steps;
    /// Killed after the effect of `b`, and resumed when the clock has jumped ahead by two days.
    ClockJumped "clock-jumped" Steps;
    /// Killed after the effect of `b`, and resumed with the original input instead of being told to continue.
    ResumedWithInput "resumed-with-input" Steps;
    /// Killed after the record of `b`, resumed to its end, and resumed once more.
    ResumedTwice "resumed-twice" Steps;
    /// Killed after the record of `b`, and resumed by three processes at once.
    ResumedAtOnce "resumed-at-once" Steps;
    /// Approved, and killed after the effect of what was approved; resumed by the approval again.
    ApprovedThenKilled "approved-then-killed" Approval;
    /// Approved, run to its end, and approved once more.
    ApprovedTwice "approved-twice" Approval;
    /// Approved three times at once.
    ApprovedAtOnce "approved-at-once" Approval;
    /// Denied, and approved afterwards.
    DeniedThenApproved "denied-then-approved" Approval;
    /// Two steps side by side, one of which waits for an approval, and gets it.
    ParallelApproved "parallel-approved" Parallel;
}

impl Cell {
    /// The cell of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cell| cell.name() == name)
    }

    /// How often each step of the workload should have taken effect in the end.
    pub fn wanted(self) -> impl Iterator<Item = (&'static str, u32)> {
        let denied = matches!(self, Self::DeniedThenApproved);
        self.workload().steps().iter().map(move |step| (*step, u32::from(!(denied && *step == "b"))))
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
