//! A [ledger](settled::Ledger) in PostgreSQL, for any number of processes on any number of hosts.
//!
//! [`PostgresLedger::connect`] opens it. Its URL is that of the database, with these parameters of its own beside those that
//! PostgreSQL clients know:
//!
//! | parameter | what it says |
//! | --- | --- |
//! | `schema=settled` | where its tables are; made if it doesn't exist |
//! | `sslmode=prefer` | `disable`, `prefer`, `require`, `verify-ca` or `verify-full`, as libpq's |
//! | `sslrootcert=FILE` | the authorities to believe, instead of the system's |
//! | `sslcert=FILE&sslkey=FILE` | what to show to the server |
//! | `listen=off` | no notifications: look for other processes' changes every second |
//! | `listen_url=URL` | where to listen: the server itself, if `URL` is a pool's |
//!
//! # Through PgBouncer
//!
//! Nothing lasts longer than a transaction, and no statement has a name: PgBouncer in transaction mode may stand between.
//! Only notifications don't pass; that is noticed, and the ledger looks instead.
//!
//! # What it promises
//!
//! Each of its commits waits for the server's disk, whatever the server's default is. A server with `fsync = off` can lose them
//! nevertheless: [`promise`](settled::Ledger::promise) says so. So can a failover to a standby that is replicated
//! asynchronously, which can't always be seen from here: list the standbys that must have a commit in
//! `synchronous_standby_names`. A `statement_timeout` that ends the wait for such a standby makes PostgreSQL report a commit that
//! only the primary has: set none for the ledger's role.
//!
//! # Exactly once
//!
//! An effect that is SQL in the same database can be committed with the record of it: [`transactional`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod batches;
mod error;
mod lane;
mod ledger;
mod migrate;
mod notices;
mod options;
mod owners;
mod pool;
mod row;
mod server;
mod session;
mod store;
mod target;
mod tls;
mod transactional;
mod waiters;

pub use self::{
    ledger::PostgresLedger,
    options::PostgresOptions,
    session::{Database, Session},
    transactional::{Effecting, PostgresTool, Undo, transactional},
};
pub use tokio_postgres;
