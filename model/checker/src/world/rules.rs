//! The rules of one world: its protocol's description and its machines.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use settled_explorer::{Budget, PropertySet};

use crate::description::{Checkpoint, Description, Keeps, KeySource, Kind};
use crate::machine::{
    Caller, CoreGuard, DescribedCaller, DescribedTool, Guard, GuardMachine, Interned, Machines, Tool, View,
};

use super::{Caller as CallerState, World};

/// The rules of one world.
#[derive(Clone)]
pub struct Rules {
    /// The protocol.
    pub description: Description,
    pub(crate) guard: Arc<dyn GuardMachine>,
    pub(crate) caller: Arc<dyn Caller>,
    pub(crate) tool: Arc<dyn Tool>,
    /// How often each fault may happen.
    pub(crate) bounds: Budget,
    /// Whether messages that can't matter any more are dropped.
    pub(crate) prunes: bool,
    /// Whether time matters only to records that wait for a time.
    pub(crate) only_waits: bool,
    /// Whether logical calls may be renamed.
    pub(crate) calls_are_alike: bool,
    /// The properties that say anything about this world.
    pub(crate) properties: PropertySet,
    /// Set when a state had no room for something: then verdicts are not final.
    pub(crate) overflowed: Arc<AtomicBool>,
}

impl Rules {
    /// The rules of a protocol that its description says all of.
    pub fn new(description: Description) -> Rules {
        let machines = Machines {
            guard: CoreGuard { policy: description.policy() },
            caller: Box::new(DescribedCaller { rules: description.caller.clone() }),
            tool: Box::new(DescribedTool { kind: description.tool.kind }),
        };
        let prunes = Rules::never_goes_back(&description);
        Rules { prunes, ..Rules::with(description, machines) }
    }

    /// The rules of a world with machines of your own.
    ///
    /// The description still says how many callers and processes there are, what the ledger can do, which faults may happen,
    /// and what the world does around a guard: `claim`, `intent`, `gives-up`, `in-progress` (without `told`, [`Act::Wait`]
    /// tells nobody), `answers`, `resources`, `without-ledger`, `rules.check-arguments`. Of `tool` the world reads `lasting`,
    /// `remembers`, `keeps`, and from `kind` whether `unknown blocks` is said of it; with the kind `transactional` it makes the
    /// effects itself, and your tool is not asked.
    ///
    /// [`Act::Wait`]: crate::machine::Act::Wait
    pub fn with<G: Guard + 'static>(description: Description, machines: Machines<G>) -> Rules {
        let mut rules = Rules {
            calls_are_alike: Rules::calls_may_be_renamed(&description),
            bounds: description.faults.into(),
            only_waits: description.caller.horizon == 0,
            description,
            guard: Arc::new(Interned::new(machines.guard)),
            caller: Arc::from(machines.caller),
            tool: Arc::from(machines.tool),
            prunes: false,
            properties: PropertySet::NONE,
            overflowed: Arc::default(),
        };
        rules.properties = rules.properties();
        rules
    }

    /// Drops messages that can't matter any more, as for the shipped guard: many fewer states. Only for a guard whose ended
    /// operations stay ended, and whose attempts only grow.
    #[must_use]
    pub fn dropping_late_messages(self) -> Rules {
        Rules { prunes: Rules::never_goes_back(&self.description), ..self }
    }

    /// What the world needs to know of a key's record.
    pub fn view_of(&self, world: &World, key: u8) -> Option<View> {
        world.keys[usize::from(key)].record.map(|record| self.guard.view(record))
    }

    /// Whether something had no room since it was asked last, so that something was left out.
    pub(crate) fn take_overflow(&self) -> bool {
        self.overflowed.swap(false, std::sync::atomic::Ordering::Relaxed) || self.guard.is_full()
    }

    /// How many callers there are.
    pub(crate) fn callers(&self) -> u8 {
        self.description.caller.operations
    }

    /// How many guards there are.
    pub(crate) fn guards(&self) -> u8 {
        self.description.guard.processes
    }

    /// Which key a caller's call has now.
    pub fn key_of(&self, call: u8, caller: &CallerState) -> u8 {
        match self.description.caller.key {
            _ if self.description.is_direct() => call,
            _ if caller.key == CallerState::REUSED => 0,
            KeySource::Caller | KeySource::PerCall => call * self.keys_per_call() + caller.key,
            KeySource::Arguments => self.arguments_of(call),
            KeySource::Reused => 0,
        }
    }

    /// How many keys one logical call may use.
    pub(crate) fn keys_per_call(&self) -> u8 {
        self.description.keys().div_ceil(self.callers()).max(1)
    }

    /// For which logical call a key is, if keys belong to calls.
    pub(crate) fn call_of_key(&self, key: u8) -> Option<u8> {
        match self.description.caller.key {
            KeySource::Caller | KeySource::PerCall => Some(key / self.keys_per_call()),
            KeySource::Arguments | KeySource::Reused => None,
        }
    }

    /// Whether one key may serve several logical calls.
    pub(crate) fn keys_are_shared(&self) -> bool {
        self.description.faults.key_reuses > 0
            || matches!(self.description.caller.key, KeySource::Arguments | KeySource::Reused)
    }

    /// The arguments of a logical call. Where no key is ever shared they can't matter.
    pub fn arguments_of(&self, call: u8) -> u8 {
        if self.description.caller.same_arguments || !self.keys_are_shared() { 0 } else { call }
    }

    /// Whether two logical calls are about one resource.
    pub(crate) fn share_resource(&self, one: u8, other: u8) -> bool {
        one == other || self.description.caller.same_resource
    }

    /// Whether it matters when callers save their progress.
    pub(crate) fn saves(&self) -> bool {
        self.description.faults.client_crashes > 0 || self.description.caller.sequential
    }

    /// Whether sends are counted.
    pub(crate) fn counts_sends(&self) -> bool {
        self.description.budget.operation > 0 || self.description.budget.fleet > 0
    }

    /// Whether a store may forget a key at any moment.
    pub(crate) fn forgets(&self) -> (bool, bool) {
        (self.description.ledger.keeps == Keeps::Shortly, self.description.tool.keeps == Keeps::Shortly)
    }

    /// Whether this caller may begin now: a workflow's step begins when the one before it is done, and saved if it has to be.
    pub(crate) fn may_begin(&self, world: &World, call: u8) -> bool {
        let caller = &self.description.caller;
        if !caller.sequential || call == 0 {
            return true;
        }
        let before = &world.callers[usize::from(call) - 1];
        let answered = matches!(before.phase, super::Phase::Told(super::Heard::Done(_)));
        answered && (before.saved || caller.checkpoint != Checkpoint::PerAnswer)
    }

    /// Whether effect and record commit together.
    pub(crate) fn is_transactional(&self) -> bool {
        self.description.tool.kind == Kind::Transactional
    }
}
