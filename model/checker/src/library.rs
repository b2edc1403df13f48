//! The protocols that ship with the checker, each in a file of its own under `model/checker/protocols`.

use crate::description::Description;
use crate::load::{LoadError, parse};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// The shipped protocols: name and TOML text.
        pub const SHIPPED: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../protocols/", $name, ".toml"))),)*
        ];
    };
}

shipped![
    "naive-retry",
    "mcp-2025-11-25",
    "mcp-restart",
    "langgraph-default-retry",
    "key-per-attempt",
    "arguments-as-key",
    "record-after-effect",
    "volatile-intent",
    "not-found-means-failed",
    "server-error-means-failed",
    "settled-opaque",
    "settled-sealable",
    "settled-observable",
    "settled-deduplicates",
    "settled-transactional",
];

/// The TOML text of a shipped protocol.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

/// A shipped protocol.
///
/// # Errors
/// [`LoadError::NoSuchProtocol`], with the names that there are.
pub fn load(name: &str) -> Result<Description, LoadError> {
    match text(name) {
        Some(text) => parse(name, text),
        None => Err(LoadError::NoSuchProtocol {
            name: name.to_owned(),
            shipped: SHIPPED.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        }),
    }
}
