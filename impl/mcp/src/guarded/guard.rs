//! Which calls are guarded, and on which terms.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use settled::{Entry, Limits, Resource};
use settled_observers::{Given, Missing};
use settled_protocol::{Backoff, Cause, Digest, Ends, Policy, Repeat, Retry, State, ToolKind};

use crate::config::{Answers, Confidential, Config, Encrypt, Kind, Mode, NewTools, Repeats, Retention, ToolConfig};
use crate::guarded::keys::{self, Origin, Rule};
use crate::listed::definition;
use crate::messages::splice;

/// What a server claims about a tool. Claims, not facts: the configuration overrides them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Annotations {
    #[serde(rename = "readOnlyHint")]
    pub(crate) read_only: Option<bool>,
    #[serde(rename = "idempotentHint")]
    pub(crate) idempotent: Option<bool>,
    #[serde(rename = "destructiveHint")]
    pub(crate) destructive: Option<bool>,
    /// Of the whole definition.
    #[serde(skip)]
    pub(crate) definition: Option<Digest>,
    /// Its results are said to fit a schema.
    #[serde(skip)]
    pub(crate) has_output_schema: bool,
}

impl Annotations {
    fn harmless(&self) -> bool {
        self.read_only == Some(true) || self.idempotent == Some(true)
    }

    fn harmful(&self) -> bool {
        self.idempotent == Some(false) || self.destructive == Some(true)
    }

    /// What is claimed by two definitions of one name: only what both say that makes it harmless, and all that makes it harmful.
    pub(crate) fn of_both(self, other: Annotations) -> Annotations {
        let both = |one, other| if one == other { one } else { Some(false) };
        Annotations {
            read_only: both(self.read_only, other.read_only),
            idempotent: both(self.idempotent, other.idempotent),
            destructive: (self.destructive == Some(true) || other.destructive == Some(true)).then_some(true),
            definition: self.definition.zip(other.definition).map(|(one, other)| definition::together(one, other)),
            has_output_schema: self.has_output_schema || other.has_output_schema,
        }
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// It is relayed as it is.
    Pass,
    /// It is relayed as it is, and what the guard would have done is counted.
    Watch,
    /// It is sent at most once.
    Guard(Terms),
}

/// The terms of a guarded tool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Terms {
    tool: ToolKind,
    derived_keys_end: Ends,
    retention: Retention,
    timeout: Duration,
    /// What the configuration declares of it, if it does.
    pub(crate) declared: Option<Arc<ToolConfig>>,
}

/// The longest name of a resource that is kept as it is.
const RESOURCE_NAME: usize = 512;

impl Terms {
    /// The policy for a call whose key is of this origin.
    pub(crate) fn policy(&self, origin: Origin) -> Policy {
        let ends = match origin {
            origin if origin.is_callers_own() => Ends::WithWindow,
            _ => self.derived_keys_end,
        };
        let repeat = Repeat { ends, window: Some(millis(self.retention.window)) };
        let errors_final = self.declared.as_ref().is_some_and(|declared| declared.answers.errors_final);
        // A pipe delivers a line once: nothing here or below it repeats one.
        Policy { errors_final, repeat, retry: self.retry(), ..Policy::new(self.tool) }
    }

    /// When an operation whose key was derived from arguments lets it begin a new one.
    pub(crate) fn derived_keys_end(&self) -> Ends {
        self.derived_keys_end
    }

    fn retry(&self) -> Retry {
        let mut retry = Retry::default();
        // Rule 9 sets the limit, and an attempt may take its whole timeout before the next one.
        if let ToolKind::Deduplicates { limit, .. } = self.tool {
            retry.total = limit;
        }
        let Some(declared) = &self.declared else { return retry };
        retry.attempts = declared.attempts.unwrap_or(retry.attempts);
        retry.total = declared.total.map_or(retry.total, millis);
        if let Some(observe) = declared.observe() {
            retry.checks = observe.checks;
            retry.backoff = Backoff { base: millis(observe.every), cap: millis(observe.at_most_every) };
        }
        retry
    }

    /// How long things may take, for a call whose key is of this origin.
    pub(crate) fn limits(&self, origin: Origin) -> Limits {
        let without = Limits::default();
        let declared = self.declared.as_ref();
        let tombstone = match origin {
            origin if origin.is_callers_own() => self.retention.own_keys,
            // Where the same arguments can be a new wish before the window is over, they can be one after it.
            _ if self.derived_keys_end == Ends::OnDelivery => None,
            _ => self.retention.derived_keys,
        };
        let margin = match self.tool {
            ToolKind::Deduplicates { margin, .. } => Some(Duration::from_millis(margin)),
            _ => None,
        };
        Limits {
            attempt: self.timeout,
            settle: declared.and_then(|tool| tool.observe()).map_or(without.settle, |observe| observe.within),
            queue: declared.and_then(|tool| tool.queue_timeout).unwrap_or(without.queue),
            transit: margin.unwrap_or(without.transit),
            tombstone,
        }
    }

    /// What a call with these parameters must have to itself.
    ///
    /// # Errors
    /// [`Missing`], if the call does not have the arguments that name it.
    pub(crate) fn resource(&self, scope: &str, params: &str) -> Result<Option<Resource>, Missing> {
        let Some(template) = self.declared.as_ref().and_then(|tool| tool.resource.as_ref()) else {
            return Ok(None);
        };
        let arguments = splice::get(params, "arguments").unwrap_or("{}");
        let name = template.text(&Given { key: "", attempt: 0, scope: None, arguments })?;
        let plain = name.len() <= RESOURCE_NAME && !name.chars().any(char::is_control);
        let name = if plain { name } else { format!("hash:{}", Digest::of(name.as_bytes())) };
        Ok(Some(Resource { scope: scope.to_owned(), name }))
    }

    /// What is declared of its keys.
    pub(crate) fn rule(&self) -> Rule<'_> {
        match &self.declared {
            Some(tool) => Rule { key: tool.key.as_ref(), ephemeral: &tool.ephemeral },
            None => Rule::default(),
        }
    }

    /// What of its calls is never kept in clear.
    pub(crate) fn confidential(&self) -> &Confidential {
        static NOTHING: Confidential = Confidential { encrypt: Encrypt::Nothing, redact: Vec::new() };
        self.declared.as_ref().map_or(&NOTHING, |tool| &tool.confidential)
    }

    /// How long a call waits before it is told how things stand; `None`: until there is an answer.
    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.declared.as_ref().and_then(|tool| tool.call_timeout)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The decision, if it does not depend on what the server says of the tool.
pub(crate) fn decide_by_configuration(config: &Config, tool: &str) -> Option<Decision> {
    let declared = config.tools.get(tool);
    if declared.map_or(config.mode, |declared| declared.mode) == Mode::Observe
        && declared.is_none_or(|declared| declared.kind != Kind::Passed)
    {
        // What is not withheld need not wait for the list either.
        return Some(Decision::Watch);
    }
    let declared = declared?;
    if declared.seen.is_some() {
        return None;
    }
    by_declaration(config, declared)
}

fn by_declaration(config: &Config, declared: &Arc<ToolConfig>) -> Option<Decision> {
    match declared.kind {
        Kind::Passed => Some(Decision::Pass),
        _ => Some(Decision::Guard(terms(config, Some(declared), ends(declared.repeat?)))),
    }
}

/// The decision. `annotations`: `None` if nothing is known of the tool.
pub(crate) fn decide(config: &Config, tool: &str, annotations: Option<&Annotations>) -> Decision {
    decide_by_configuration(config, tool).unwrap_or_else(|| enforced(config, tool, annotations))
}

/// The decision as it is where calls are guarded, whatever the mode is.
pub(crate) fn enforced(config: &Config, tool: &str, annotations: Option<&Annotations>) -> Decision {
    let declared = relied_on(config, tool, annotations);
    if let Some(declared) = &declared
        && let Some(decision) = by_declaration(config, declared)
    {
        return decision;
    }
    let claims = annotations.copied().unwrap_or_default();
    if declared.is_none() && claims.harmless() && config.new_tools == NewTools::Annotations {
        return Decision::Pass;
    }
    let by_claims = if claims.harmful() { Repeats::Replay } else { Repeats::NewAfterDelivery };
    let repeats = config.defaults.repeat.unwrap_or(by_claims);
    Decision::Guard(terms(config, declared.as_ref(), ends(repeats)))
}

/// What is declared of a tool, as far as it can be relied on: of one that is another now than it was when it was declared
/// (`seen`), nothing counts of what it can do. Its keys stay as they are, so that a repeated call is still recognised.
fn relied_on(config: &Config, tool: &str, annotations: Option<&Annotations>) -> Option<Arc<ToolConfig>> {
    let declared = config.tools.get(tool)?;
    if !has_changed(declared, annotations) {
        return Some(declared.clone());
    }
    let opaque = ToolConfig { kind: Kind::Opaque, answers: Answers::default(), ..ToolConfig::clone(declared) };
    Some(Arc::new(opaque))
}

/// Whether a tool is another one than somebody has looked at; also if the server does not say what it is.
pub(crate) fn has_changed(declared: &ToolConfig, annotations: Option<&Annotations>) -> bool {
    declared.seen.is_some_and(|seen| annotations.and_then(|annotations| annotations.definition) != Some(seen))
}

/// Whether a tool is guarded only because nobody has looked at it.
pub(crate) fn is_new(config: &Config, tool: &str) -> bool {
    config.new_tools == NewTools::Guard && !config.tools.contains_key(tool)
}

/// Whether nobody, neither configuration nor server, says what the tool is.
pub(crate) fn undeclared(config: &Config, tool: &str, annotations: &Annotations) -> bool {
    !config.tools.contains_key(tool) && !annotations.harmless() && !annotations.harmful()
}

/// The terms on which to take up what an earlier process left. `listed`: what the server says of the tool; `None`: it has not
/// listed its tools. Then what has to be compared with that waits.
pub(crate) fn recovery(config: &Config, entry: &Entry, listed: Option<Option<Annotations>>) -> Option<(Terms, Origin)> {
    let tool = entry.key.tool();
    let has_to_be_compared = config.tools.get(tool).is_some_and(|declared| declared.seen.is_some());
    if has_to_be_compared && listed.is_none() && !entry.record.is_settled() {
        return None;
    }
    let annotations = listed.flatten().filter(|_| has_to_be_compared);
    let declared = relied_on(config, tool, annotations.as_ref());
    let declared = declared.as_ref();
    let own_key = keys::is_callers_own(&entry.key);
    let origin = if own_key { Origin::Meta } else { Origin::Arguments };
    let can_tell = declared.is_some_and(|tool| !matches!(tool.kind, Kind::Opaque | Kind::Passed));
    let repeat = declared.and_then(|tool| tool.repeat).or(config.defaults.repeat);
    if !own_key
        && !can_tell
        && repeat != Some(Repeats::Replay)
        && matches!(entry.record.state(), State::Unknown { cause: Cause::Error(_), .. })
    {
        // An error that was not delivered, and not held for a person: only the next call can say what it means.
        return None;
    }
    let terms = match enforced(config, tool, annotations.as_ref()) {
        Decision::Guard(terms) => terms,
        // It was guarded when it was sent, so nothing is known of it now either.
        Decision::Pass | Decision::Watch => opaque(config, Ends::OnDelivery),
    };
    Some((terms, origin))
}

fn ends(repeat: Repeats) -> Ends {
    match repeat {
        Repeats::Replay => Ends::OnFailure,
        Repeats::NewAfterDelivery => Ends::OnDelivery,
    }
}

fn opaque(config: &Config, derived_keys_end: Ends) -> Terms {
    Terms {
        tool: ToolKind::Opaque,
        derived_keys_end,
        retention: Retention::of(config.defaults.window),
        timeout: config.defaults.timeout,
        declared: None,
    }
}

fn terms(config: &Config, declared: Option<&Arc<ToolConfig>>, derived_keys_end: Ends) -> Terms {
    let Some(declared) = declared else {
        return opaque(config, derived_keys_end);
    };
    let tool = match &declared.kind {
        Kind::Deduplicates { limit, margin, .. } => {
            ToolKind::Deduplicates { limit: millis(*limit), margin: millis(*margin), remembers_rejections: false }
        }
        Kind::Observable { settling, .. } => ToolKind::Observable { settling: millis(*settling) },
        Kind::Sealable { .. } => ToolKind::Sealable,
        Kind::Opaque | Kind::Passed => ToolKind::Opaque,
    };
    Terms {
        tool,
        derived_keys_end,
        retention: declared.retention,
        timeout: declared.timeout,
        declared: Some(declared.clone()),
    }
}

/// The scope of all keys if none is configured: the server program's name, and a short digest of its whole command and of
/// the directory that it is started in. (Its environment differs between two starts that mean the same.)
pub(crate) fn default_scope(command: &[std::ffi::OsString], directory: &std::path::Path) -> String {
    let program = command.first().map(std::path::Path::new).and_then(|path| path.file_name());
    let name: String = program
        .map(|name| name.to_string_lossy().chars().filter(|c| !c.is_control()).take(64).collect())
        .unwrap_or_default();
    let name = if name.is_empty() { "server".to_owned() } else { name };
    scope_of(&name, command.iter().map(|part| part.as_encoded_bytes()), directory)
}

/// A scope that shows a name, and that differs wherever any of the parts does.
pub(crate) fn scope_of<'a>(
    name: &str,
    parts: impl IntoIterator<Item = &'a [u8]>,
    directory: &'a std::path::Path,
) -> String {
    let mut parts: Vec<&[u8]> = parts.into_iter().collect();
    parts.push(directory.as_os_str().as_encoded_bytes());
    let digest = Digest::of_parts(&parts).to_string();
    format!("{name}-{}", digest.get(..12).unwrap_or(&digest))
}

#[cfg(test)]
mod tests;
