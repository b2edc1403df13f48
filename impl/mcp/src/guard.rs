//! Which calls are guarded, and on which terms.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use settled::{Entry, Limits, Resource};
use settled_observers::{Given, Missing};
use settled_protocol::{Backoff, Cause, Digest, Ends, Policy, Repeat, Retry, State, ToolKind};

use crate::config::{Config, Kind, Repeats, Retention, ToolConfig};
use crate::keys::{self, Origin};
use crate::splice;

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
}

impl Annotations {
    fn harmless(&self) -> bool {
        self.read_only == Some(true) || self.idempotent == Some(true)
    }

    fn harmful(&self) -> bool {
        self.idempotent == Some(false) || self.destructive == Some(true)
    }
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    /// It is relayed as it is.
    Pass,
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
            Origin::Parameter | Origin::Meta => Ends::WithWindow,
            Origin::Arguments => self.derived_keys_end,
        };
        let repeat = Repeat { ends, window: Some(millis(self.retention.window)) };
        let errors_final = self.declared.as_ref().is_some_and(|declared| declared.answers.errors_final);
        // A pipe delivers a line once: nothing here or below it repeats one.
        Policy { errors_final, repeat, retry: self.retry(), ..Policy::new(self.tool) }
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
            Origin::Parameter | Origin::Meta => self.retention.own_keys,
            // Where the same arguments can be a new wish before the window is over, they can be one after it.
            Origin::Arguments if self.derived_keys_end == Ends::OnDelivery => None,
            Origin::Arguments => self.retention.derived_keys,
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

    /// The arguments that name the operation, sorted; `None`: all.
    pub(crate) fn fields(&self) -> Option<&[String]> {
        self.declared.as_ref().and_then(|tool| tool.key.as_deref())
    }

    /// How long a call waits before it is told how things stand; `None`: until there is an answer.
    pub(crate) fn call_timeout(&self) -> Option<Duration> {
        self.declared.as_ref().and_then(|tool| tool.call_timeout)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The decision, if it does not depend on what the server claims about the tool.
pub(crate) fn decide_by_configuration(config: &Config, tool: &str) -> Option<Decision> {
    let declared = config.tools.get(tool)?;
    let repeat = match declared.kind {
        Kind::Passed => return Some(Decision::Pass),
        _ => declared.repeat?,
    };
    Some(Decision::Guard(terms(config, tool, ends(repeat))))
}

/// The decision. `annotations`: `None` if nothing is known of the tool.
pub(crate) fn decide(config: &Config, tool: &str, annotations: Option<&Annotations>) -> Decision {
    if let Some(decision) = decide_by_configuration(config, tool) {
        return decision;
    }
    let claims = annotations.copied().unwrap_or_default();
    if !config.tools.contains_key(tool) && claims.harmless() {
        return Decision::Pass;
    }
    let by_claims = if claims.harmful() { Repeats::Replay } else { Repeats::NewAfterDelivery };
    Decision::Guard(terms(config, tool, ends(config.defaults.repeat.unwrap_or(by_claims))))
}

/// Whether nobody, neither configuration nor server, says what the tool is.
pub(crate) fn undeclared(config: &Config, tool: &str, annotations: &Annotations) -> bool {
    !config.tools.contains_key(tool) && !annotations.harmless() && !annotations.harmful()
}

/// The terms on which to take up what an earlier process left, before anything is known of the server's claims.
pub(crate) fn recovery(config: &Config, entry: &Entry) -> Option<(Terms, Origin)> {
    let tool = entry.key.tool();
    let declared = config.tools.get(tool);
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
    let decision = decide(config, tool, None);
    let terms = match decision {
        Decision::Guard(terms) => terms,
        // It was guarded when it was sent, so nothing is known of it now either.
        Decision::Pass => opaque(config, Ends::OnDelivery),
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

fn terms(config: &Config, tool: &str, derived_keys_end: Ends) -> Terms {
    let Some(declared) = config.tools.get(tool) else {
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
    let mut parts: Vec<&[u8]> = command.iter().map(|part| part.as_encoded_bytes()).collect();
    parts.push(directory.as_os_str().as_encoded_bytes());
    let digest = Digest::of_parts(&parts).to_string();
    let program = command.first().map(std::path::Path::new).and_then(|path| path.file_name());
    let name: String = program
        .map(|name| name.to_string_lossy().chars().filter(|c| !c.is_control()).take(64).collect())
        .unwrap_or_default();
    let name = if name.is_empty() { "server".to_owned() } else { name };
    format!("{name}-{}", digest.get(..12).unwrap_or(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("settled.toml".as_ref(), text).unwrap()
    }

    fn claims(read_only: Option<bool>, idempotent: Option<bool>, destructive: Option<bool>) -> Annotations {
        Annotations { read_only, idempotent, destructive }
    }

    fn ends_of(decision: Decision) -> Option<Ends> {
        match decision {
            Decision::Pass => None,
            Decision::Guard(terms) => Some(terms.policy(Origin::Arguments).repeat.ends),
        }
    }

    #[test]
    fn defaults_by_annotation() {
        let none = config("");
        let by = |claims: Option<Annotations>| ends_of(decide(&none, "t", claims.as_ref()));
        assert_eq!(by(Some(claims(Some(true), None, None))), None);
        assert_eq!(by(Some(claims(None, Some(true), Some(true)))), None);
        assert_eq!(by(Some(claims(None, Some(false), None))), Some(Ends::OnFailure));
        assert_eq!(by(Some(claims(Some(false), None, Some(true)))), Some(Ends::OnFailure));
        assert_eq!(by(Some(claims(Some(false), None, Some(false)))), Some(Ends::OnDelivery));
        assert_eq!(by(Some(Annotations::default())), Some(Ends::OnDelivery));
        assert_eq!(by(None), Some(Ends::OnDelivery));
        assert!(undeclared(&none, "t", &Annotations::default()));
        assert!(!undeclared(&none, "t", &claims(None, None, Some(true))));
    }

    #[test]
    fn the_configuration_overrides() {
        let read = claims(Some(true), None, None);
        let by = |text: &str| ends_of(decide(&config(text), "t", Some(&read)));
        assert_eq!(by("[tools.t]\nguard = true"), Some(Ends::OnDelivery));
        assert_eq!(by("[tools.t]\nkind = 'opaque'\nrepeat = 'replay'"), Some(Ends::OnFailure));
        assert_eq!(by("[tools.t]\nkey = ['a']"), Some(Ends::OnFailure));
        assert_eq!(by("[tools.t]\nguard = false"), None);
        let harmful = claims(None, None, Some(true));
        let passed = config("[tools.t]\nkind = 'idempotent'");
        assert_eq!(decide(&passed, "t", Some(&harmful)), Decision::Pass);
        let fresh = config("[defaults]\nrepeat = 'new-after-delivery'\nwindow = '1h'");
        let Decision::Guard(terms) = decide(&fresh, "t", Some(&harmful)) else { panic!("guarded") };
        let policy = terms.policy(Origin::Arguments);
        assert_eq!(policy.repeat, Repeat { ends: Ends::OnDelivery, window: Some(3_600_000) });
        assert_eq!(terms.policy(Origin::Meta).repeat.ends, Ends::WithWindow);
        assert_eq!(policy.rules, settled_protocol::Rules::SOUND);
    }

    #[test]
    fn deduplicating_tools() {
        let text = "[tools.t]\nkind = 'deduplicates'\npass_key_as = 'id'\nlimit = '48h'\nrepeat = 'replay'";
        let Some(Decision::Guard(terms)) = decide_by_configuration(&config(text), "t") else { panic!("guarded") };
        let policy = terms.policy(Origin::Arguments);
        let (limit, margin) = (48 * 3_600_000, 60_000);
        assert_eq!(policy.tool, ToolKind::Deduplicates { limit, margin, remembers_rejections: false });
        assert_eq!((policy.retry.total, policy.repeat.window), (limit, Some(limit)));
    }

    #[test]
    fn scopes_of_commands() {
        let command = |parts: &[&str]| parts.iter().map(Into::into).collect::<Vec<std::ffi::OsString>>();
        let here = std::path::Path::new("/srv/a");
        let one = default_scope(&command(&["/usr/bin/node", "a b"]), here);
        assert!(one.starts_with("node-") && one.len() == "node-".len() + 12, "{one}");
        assert_ne!(one, default_scope(&command(&["/usr/bin/node", "a", "b"]), here));
        assert_eq!(one, default_scope(&command(&["/usr/bin/node", "a b"]), here));
        assert_ne!(one, default_scope(&command(&["/usr/bin/node", "a b"]), "/srv/b".as_ref()));
    }
}
