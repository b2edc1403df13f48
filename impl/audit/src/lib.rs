//! Audit of a tool server: the same call twice, with a lost answer, across a restart, concurrently; and what came of it.
