//! Which descriptions a world can be built from, and the core's policy for each.

use settled_explorer::Fault;
use settled_protocol::{Backoff, Ends, Policy, Repeat, Retry, ToolKind};

use crate::description::*;

/// A bound or a combination that a world can't be built from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Unbuildable {
    /// The field, as written in TOML.
    pub field: String,
    /// Why, and what is allowed.
    pub reason: String,
}

impl From<settled_devices_model::Unbuildable> for Unbuildable {
    fn from(error: settled_devices_model::Unbuildable) -> Self {
        let is_fault = Fault::ALL.iter().any(|fault| fault.name() == error.field);
        let table = if is_fault { "faults" } else { "devices" };
        Unbuildable { field: format!("{table}.{}", error.field), reason: error.reason }
    }
}

/// The most keys that a world has room for.
pub(crate) const MOST_KEYS: u8 = 6;

impl Description {
    /// Checks that a world can be built: all bounds in range, no contradiction, and no fault that can't happen in it.
    ///
    /// # Errors
    /// Names the field and what is allowed.
    pub fn validate(&self) -> Result<(), Unbuildable> {
        let refuse =
            |field: &str, reason: &str| Err(Unbuildable { field: field.to_owned(), reason: reason.to_owned() });
        if self.name.is_empty() || self.name.chars().any(char::is_control) {
            return refuse("name", "a name in one line is needed");
        }
        self.validate_ranges()?;
        if let Some(devices) = &self.devices {
            self.validate_alone()?;
            return settled_devices_model::DeviceWorld::new(&self.name, devices, self.faults)
                .map(|_| ())
                .map_err(Unbuildable::from);
        }
        if self.guard.intent != Intent::BeforeSend && self.guard.processes > 1 {
            return refuse("guard.processes", "a guard with `intent = \"after-effect\"` is modelled as one process");
        }
        if self.guard.processes == 0 && self.tool.kind == Kind::Transactional {
            return refuse(
                "tool.kind",
                "a transactional tool commits with the guard's record, so it needs `guard.processes` of 1 or more",
            );
        }
        if self.tool.kind == Kind::Transactional && self.ledger.acknowledged != Acknowledged::Durable {
            return refuse(
                "ledger.acknowledged",
                "a transactional tool's effect commits with the record, so they are lost together: `durable` is needed",
            );
        }
        if self.guard.resources.is_line()
            && (self.guard.claim != Claim::CompareAndSet || self.guard.intent != Intent::BeforeSend)
        {
            return refuse(
                "guard.resources",
                "a place in a line is given by the write that claims the key: `claim` and `intent` must be left as they are",
            );
        }
        if self.guard.frees != Frees::WhenSettled && !self.guard.resources.is_line() {
            return refuse(
                "guard.frees",
                "says when the next one in a line may begin: that needs `resources = \"line\"`",
            );
        }
        if self.is_direct() && self.budget.memory > 0 {
            return refuse("budget.memory", "without a guard there are no records: `guard.processes` is 0");
        }
        if self.tool.declared.is_some_and(|declared| declared != self.tool.kind)
            && (self.tool.kind == Kind::Transactional || self.tool.declared == Some(Kind::Transactional))
        {
            return refuse("tool.declared", "a transactional tool is what it is: leave `declared` out");
        }
        if self.keys() > MOST_KEYS {
            return Err(Unbuildable {
                field: "caller.calls".to_owned(),
                reason: format!(
                    "operations × calls is {}: at most {MOST_KEYS} keys have room in a world whose operations depend on \
                     each other",
                    self.keys()
                ),
            });
        }
        for (fault, bound) in self.faults.list() {
            if bound > 0
                && let Some(reason) = self.cannot_happen(fault)
            {
                return Err(Unbuildable { field: format!("faults.{}", fault.name()), reason: reason.to_owned() });
            }
        }
        Ok(())
    }

    /// Devices come instead of callers, guard and tool: what is said of those would do nothing.
    fn validate_alone(&self) -> Result<(), Unbuildable> {
        let tables = [
            ("caller", self.caller == CallerRules::default()),
            ("guard", self.guard == GuardRules::default()),
            ("ledger", self.ledger == LedgerRules::default()),
            ("tool", self.tool == ToolRules::default()),
            ("budget", self.budget == BudgetRules::default()),
        ];
        match tables.iter().find(|(_, is_default)| !is_default) {
            None => Ok(()),
            Some((table, _)) => Err(Unbuildable {
                field: (*table).to_owned(),
                reason: "with `[devices]` there are no callers, guards and tools: leave the table out".to_owned(),
            }),
        }
    }

    fn validate_ranges(&self) -> Result<(), Unbuildable> {
        let range = |field: &str, value: u8, low: u8, high: u8| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Unbuildable {
                field: field.to_owned(),
                reason: format!("{value} is out of range: {low} to {high} are allowed"),
            })
        };
        range("caller.operations", self.caller.operations, 1, 3)?;
        range("caller.calls", self.caller.calls, 1, 4)?;
        range("caller.horizon", self.caller.horizon, 0, 4)?;
        range("guard.processes", self.guard.processes, 0, 3)?;
        range("guard.window", self.guard.window, 0, 8)?;
        range("guard.margin", self.guard.margin, 0, 8)?;
        range("tool.attempts", self.tool.attempts, 1, 4)?;
        range("tool.checks", self.tool.checks, 1, 4)?;
        range("tool.remembers", self.tool.remembers, 0, 8)?;
        range("tool.settling", self.tool.settling, 1, 4)?;
        range("budget.operation", self.budget.operation, 0, 16)?;
        range("budget.fleet", self.budget.fleet, 0, 16)?;
        range("budget.memory", self.budget.memory, 0, 8)?;
        for (fault, bound) in self.faults.list() {
            range(&format!("faults.{}", fault.name()), bound, 0, 4)?;
        }
        Ok(())
    }

    /// Why a fault can't happen in this world, if it can't: a bound that would do nothing is a mistake.
    pub fn cannot_happen(&self, fault: Fault) -> Option<&'static str> {
        let guarded = matches!(
            fault,
            Fault::ConcurrentCall
                | Fault::KeyReuse
                | Fault::GuardCrash
                | Fault::CallerPartition
                | Fault::LedgerPartition
                | Fault::ToolPartition
                | Fault::UnsyncedLoss
                | Fault::TornWrite
                | Fault::DiskFull
                | Fault::SyncError
                | Fault::LedgerFailover
                | Fault::Takeover
                | Fault::Pause
                | Fault::Decision
                | Fault::ClockSkew
                | Fault::ClockJump
        );
        match fault {
            _ if guarded && self.is_direct() => Some("there is no guard (`guard.processes` is 0), so it can't happen"),
            Fault::Timeout | Fault::Takeover if !self.is_direct() && !self.guard.gives_up => {
                Some("no guard ever gives up waiting or takes over: `guard.gives-up` is false")
            }
            Fault::Rerun | Fault::ConcurrentCall if self.caller.calls < 2 => {
                Some("a call is made again: that needs `caller.calls` of 2 or more")
            }
            Fault::Takeover if self.guard.processes < 2 => {
                Some("a takeover needs a second guard: `guard.processes` of 2 or 3")
            }
            Fault::KeyReuse if self.caller.operations < 2 => {
                Some("a key is reused by another logical call: `caller.operations` of 2 or 3")
            }
            Fault::KeyReuse if self.caller.same_arguments => Some(
                "with equal arguments a reused key can't be told from a retry: `caller.same-arguments` must be false",
            ),
            Fault::Reordering if self.is_direct() => {
                Some("requests of direct callers have no order: they may arrive in any without a fault")
            }
            Fault::KeyReuse if self.caller.key == KeySource::Arguments => {
                Some("keys made of the arguments are never reused with other arguments")
            }
            Fault::ClockSkew | Fault::ClockJump if self.clocks_matter() => None,
            Fault::Delay | Fault::Pause | Fault::ClockSkew | Fault::ClockJump if !self.time_passes() => Some(
                "nothing in this protocol depends on time: that needs an observable tool, `guard.window` or \
                 `tool.remembers` (for a lease that runs out, see `takeovers`)",
            ),
            Fault::KeyExpiry if self.ledger.keeps == Keeps::Forever && self.tool.keeps == Keeps::Forever => {
                Some("neither store forgets: that needs `ledger.keeps` or `tool.keeps` to be `\"shortly\"`")
            }
            Fault::LedgerFailover if self.ledger.acknowledged != Acknowledged::Unreplicated => {
                Some("nothing acknowledged is ever lost: that needs `ledger.acknowledged = \"unreplicated\"`")
            }
            _ => None,
        }
    }

    /// Whether callers talk to the tool directly.
    pub fn is_direct(&self) -> bool {
        self.guard.processes == 0
    }

    /// What the guard takes the tool for.
    pub fn declared(&self) -> Kind {
        self.tool.declared.unwrap_or(self.tool.kind)
    }

    /// How many keys its world has.
    pub(crate) fn keys(&self) -> u8 {
        let caller = &self.caller;
        match caller.key {
            _ if self.is_direct() => caller.operations,
            KeySource::Caller if !caller.new_key_after_failure || caller.after_failed == Again::Stop => {
                caller.operations
            }
            KeySource::Caller | KeySource::PerCall => caller.operations * caller.calls,
            KeySource::Arguments => caller.operations,
            KeySource::Reused => 1,
        }
    }

    /// Whether its operations have nothing in common but processes and faults: no key, no resource, no order, no budget.
    /// Every run of such a world, seen by one of its operations alone, is a run of the world with that operation only; so
    /// a property holds of all of them if and only if it holds of one.
    pub fn operations_are_independent(&self) -> bool {
        let caller = &self.caller;
        (self.is_direct() || matches!(caller.key, KeySource::Caller | KeySource::PerCall))
            && !caller.sequential
            && !caller.same_resource
            && self.faults.key_reuses == 0
            && self.budget.fleet == 0
            && self.devices.is_none()
            && !self.operations_can_be_hit_together()
    }

    /// Whether a fault that happens to one operation kills a process that is at work for another.
    fn operations_can_be_hit_together(&self) -> bool {
        let faults = &self.faults;
        faults.torn_writes > 0
            || faults.sync_errors > 0
            || self.tool.lasting && (faults.tool_crashes_before > 0 || faults.tool_crashes_after > 0)
    }

    /// Whether time ever passes: only where a record, or what the tool remembers, waits for it.
    pub fn time_passes(&self) -> bool {
        self.declared() == Kind::Observable || self.guard.window > 0 || self.tool.remembers > 0
    }

    /// Whether it matters what a process's clock shows.
    pub(crate) fn clocks_matter(&self) -> bool {
        self.time_passes() || self.guard.resources == Resources::LineByClock
    }

    /// The core's policy for this protocol's guard.
    pub fn policy(&self) -> Policy {
        let tool = match self.declared() {
            Kind::Opaque => ToolKind::Opaque,
            Kind::Observable => ToolKind::Observable { settling: self.tool.settling.into() },
            Kind::Sealable => ToolKind::Sealable,
            Kind::Deduplicates => ToolKind::Deduplicates {
                limit: if self.tool.remembers == 0 { u64::MAX } else { self.tool.remembers.into() },
                margin: self.guard.margin.into(),
                remembers_rejections: false,
            },
            Kind::Transactional => ToolKind::Transactional,
            Kind::Idempotent => ToolKind::Idempotent,
        };
        let ends = match (self.guard.repeat, self.caller.key) {
            (RepeatRule::NewAfterDelivery, _) => Ends::OnDelivery,
            (RepeatRule::NewAfterFailure, _) | (_, KeySource::Arguments) => Ends::OnFailure,
            _ => Ends::WithWindow,
        };
        Policy {
            tool,
            errors_final: self.tool.errors_final,
            single_delivery: self.guard.single_delivery,
            repeat: Repeat { ends, window: (self.guard.window > 0).then(|| self.guard.window.into()) },
            retry: Retry {
                attempts: self.tool.attempts.into(),
                total: u64::MAX,
                checks: self.tool.checks.into(),
                backoff: Backoff { base: 0, cap: 0 },
            },
            rules: self.guard.rules,
        }
    }
}
