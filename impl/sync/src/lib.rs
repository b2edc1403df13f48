//! Operations of devices that act offline: each takes effect once, and all replicas converge.
//!
//! What an operation is and how states merge is in the protocol core ([`settled_protocol::merge`]). Here is how operations travel:
//! the [`Schema`] says by which rules targets merge, [`wire`] is what device and server say to each other (`openapi.yaml` describes
//! it).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod device;
mod schema;
pub mod server;
pub mod store;
pub mod wire;

pub use device::{Device, DeviceError, DeviceOptions};
pub use schema::{Schema, SchemaError, Unfit};
