//! What the server says of its tools, and whether somebody has looked at it.

pub(crate) mod definition;
pub(crate) mod tools;
pub(crate) mod unreviewed;
