//! What the client is told, when, and how it can ask.

pub(crate) mod answer;
pub(crate) mod offers;
pub(crate) mod patience;
pub(crate) mod progress;
pub(crate) mod status;
pub(crate) mod tasks;
