//! One-line mistakes in core, engine, ledgers and proxy, and which layer of the tests finds each.
