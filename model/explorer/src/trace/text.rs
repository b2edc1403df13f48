//! A trace as numbered lines.
