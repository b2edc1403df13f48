//! How long an operation is remembered: `window`, `retry_horizon`, `expired`, `tombstone`.

use std::time::Duration;

use toml::Spanned;

use super::place::Table;
use super::tool::ToolTable;
use super::{Defaults, Repeats, Wrong};

/// How long a key is still answered "expired" if nothing else is declared.
const TOMBSTONE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long an operation is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long after it ended an operation is still replayed.
    pub window: Duration,
    /// How long after that a key which the caller gave is answered "expired"; `None`: it begins a new operation.
    pub own_keys: Option<Duration>,
    /// The same for a key that was derived from arguments.
    pub derived_keys: Option<Duration>,
}

impl Retention {
    /// What holds for tools that don't say otherwise.
    pub(crate) fn of(window: Duration) -> Retention {
        // The caller's own key never means two operations. Arguments may well come again after a day, as a new wish.
        Retention { window, own_keys: Some(TOMBSTONE), derived_keys: None }
    }
}

/// `at_least`: how long a tool remembers a key by itself.
pub(super) fn check(
    table: &Table,
    tool: &ToolTable,
    defaults: &Defaults,
    timeout: Duration,
    repeat: Option<Repeats>,
    at_least: Option<Duration>,
) -> Result<Retention, Wrong> {
    let horizon = table.span("retry_horizon", &tool.retry_horizon)?;
    let declared = table.span("window", &tool.window)?;
    let window = declared.unwrap_or_else(|| at_least.map_or(defaults.window, |least| defaults.window.max(least)));
    if let Some(problem) = too_short(window, horizon, timeout) {
        return Err(match [&tool.window, &tool.retry_horizon, &tool.timeout].into_iter().find_map(Option::as_ref) {
            Some(at) => table.wrong(at.span(), "window", problem),
            None => table.lacks("window", problem),
        });
    }
    let tombstone = table.span("tombstone", &tool.tombstone)?;
    let retention = Retention::of(window);
    match &tool.expired {
        None => Ok(Retention { own_keys: tombstone.or(retention.own_keys), ..retention }),
        Some(expired) => match expired.get_ref().as_str() {
            "refuse" => {
                if repeat == Some(Repeats::NewAfterDelivery) {
                    let problem = "can't be `refuse` with `repeat = \"new-after-delivery\"`, where the same arguments are a \
                                   new wish long before the window is over";
                    return Err(table.wrong(expired.span(), "expired", problem));
                }
                let kept = Some(tombstone.unwrap_or(TOMBSTONE));
                Ok(Retention { own_keys: kept, derived_keys: kept, ..retention })
            }
            "new" => match &tool.tombstone {
                Some(at) => {
                    let problem = "has no meaning with `expired = \"new\"`: leave out one of the two";
                    Err(table.wrong(at.span(), "tombstone", problem))
                }
                None => Ok(Retention { own_keys: None, ..retention }),
            },
            other => {
                let problem = format!(
                    "`{other}` is not known: write `refuse` (a call with an expired key is refused) or `new` (it is a new \
                     operation)"
                );
                Err(table.wrong(expired.span(), "expired", problem))
            }
        },
    }
}

/// Rule 12: what is forgotten while a call with its key can still arrive could happen again.
fn too_short(window: Duration, horizon: Option<Duration>, timeout: Duration) -> Option<String> {
    let (horizon, name) = match horizon {
        Some(horizon) => (horizon, "retry_horizon"),
        None => (timeout, "timeout"),
    };
    (window < horizon).then(|| {
        format!(
            "is {}, shorter than the {} of `{name}` in which a retry can still arrive: it would be carried out again; make it \
             longer, or shorten `{name}`",
            humantime::format_duration(window),
            humantime::format_duration(horizon)
        )
    })
}

/// The same for `[defaults]`.
pub(super) fn check_defaults(
    of: &str,
    window: Duration,
    timeout: Duration,
    at: [&Option<Spanned<String>>; 2],
) -> Result<(), Wrong> {
    match (too_short(window, None, timeout), at.into_iter().find_map(Option::as_ref)) {
        (Some(problem), Some(at)) => Err(Wrong::new(at.span(), format!("{of}.window"), problem)),
        _ => Ok(()),
    }
}
