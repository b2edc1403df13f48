//! One message: its text, as it is read, changed and written.

pub(crate) mod context;
pub(crate) mod frame;
pub(crate) mod incoming;
pub(crate) mod lines;
pub(crate) mod oversized;
pub(crate) mod splice;
