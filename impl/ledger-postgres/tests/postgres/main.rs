//! What is special to PostgreSQL, with real servers.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod leases;
mod load;
mod notices;
mod outage;
mod pooled;
mod schema;
mod support;
mod tls;
mod transactional;
