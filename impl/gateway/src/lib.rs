//! The HTTP gateway of `settled`: it stands in front of a server behind HTTP, and makes every request with an
//! `Idempotency-Key` take effect at most once.
//!
//! Whatever has no key is passed on as it is, both ways as it comes. A request with a key is recorded before it is sent, and
//! answered with the server's own answer, byte for byte: also when its caller gave up and asks again, when the answer was a
//! stream that is still coming in, or when this process was killed in the middle.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`config`], `routes`, `setup` | what is declared, and what follows |
//! | `front`, `respond` | connections, and what becomes of a request |
//! | `pass`, `headers`, `connect`, `upstream`, `gate` | passing on, and what a lost answer proves |
//! | `guarded`, `tool`, `progress`, `overflow`, `answer` | a request with a key |
//! | `live`, `presets` | answers that are streams |
//! | `operations`, `pages`, `refusal` | the gateway's own answers |
//! | `kept` | what is kept, and how |
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answer;
pub mod config;
mod connect;
mod documentation;
mod flag;
mod front;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod gateway;
mod guarded;
mod headers;
mod kept;
mod live;
mod observe;
mod operations;
mod overflow;
mod pages;
mod pass;
mod payload;
mod places;
mod presets;
mod progress;
mod refusal;
mod respond;
mod routes;
mod run;
mod setup;
mod tool;
mod upstream;

pub use config::{Config, ConfigError};
pub use presets::Preset;
pub use run::{GatewayError, GatewayOptions, Reload, Told, run, serve};
pub use setup::SetupError;
