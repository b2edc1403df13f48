//! The whole implementation on a simulated clock, network and disk.
