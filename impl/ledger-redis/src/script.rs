//! The scripts that run at the server.

use redis::Script;

/// All of them.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) begin: Script,
    pub(crate) store: Script,
    pub(crate) forget: Script,
    pub(crate) read: Script,
    pub(crate) keys: Script,
    pub(crate) tidy: Script,
    pub(crate) register: Script,
    pub(crate) renew: Script,
    pub(crate) retire: Script,
    pub(crate) liveness: Script,
    pub(crate) draw: Script,
}

macro_rules! script {
    ($name:literal) => {
        Script::new(concat!(include_str!("scripts/check.lua"), include_str!(concat!("scripts/", $name, ".lua"))))
    };
}

impl Scripts {
    pub(crate) fn new() -> Scripts {
        Scripts {
            begin: Script::new(include_str!("scripts/begin.lua")),
            store: script!("store"),
            forget: script!("forget"),
            read: script!("read"),
            keys: script!("keys"),
            tidy: script!("tidy"),
            register: script!("register"),
            renew: script!("renew"),
            retire: script!("retire"),
            liveness: script!("liveness"),
            draw: script!("draw"),
        }
    }
}
