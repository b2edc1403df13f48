//! `[limits]`: how much may be asked for.

use std::time::Duration;

use serde::Deserialize;

use super::span;
use super::value::{Count, Size, Span};

/// How much may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "Table")]
pub struct Limits {
    /// The largest head of a request, in bytes: 431 beyond that.
    pub header_bytes: usize,
    /// How many headers a request may have: 431 beyond that.
    pub header_lines: usize,
    /// The longest key, in characters: 400 beyond that.
    pub key_bytes: usize,
    /// The largest body of a guarded request: 413 beyond that.
    pub body_bytes: usize,
    /// The largest answer that is kept.
    pub stored_bytes: usize,
    /// How many requests of one principal may be under way at once: 429 beyond that, and nothing is done.
    pub in_flight_per_principal: usize,
    /// How many connections there may be at once; more wait to be taken.
    pub connections: usize,
    /// How long a client may take to send a head.
    pub header_timeout: Duration,
    /// How long a client may send nothing in the middle of a body: 408 beyond that, and nothing is done.
    pub body_idle_timeout: Duration,
    /// How long a client may take to send the whole body of a guarded request.
    pub body_timeout: Duration,
    /// How long a stream of the upstream may be silent before it counts as broken off.
    pub stream_silence: Duration,
    /// How long connecting to the upstream may take, the TLS handshake included.
    pub connect_timeout: Duration,
    /// How long to wait for what is under way when told to end.
    pub drain_timeout: Duration,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    header_bytes: Option<Size>,
    header_lines: Option<Count>,
    key_bytes: Option<Count>,
    body_bytes: Option<Size>,
    stored_bytes: Option<Size>,
    in_flight_per_principal: Option<Count>,
    connections: Option<Count>,
    header_timeout: Option<Span>,
    body_idle_timeout: Option<Span>,
    body_timeout: Option<Span>,
    stream_silence: Option<Span>,
    connect_timeout: Option<Span>,
    drain_timeout: Option<Span>,
}

impl Default for Limits {
    /// 64 KiB and 100 lines of head, keys of 255 characters, bodies of 8 MiB, answers of 16 MiB, 256 requests of one principal,
    /// 16,384 connections; 30 s for a head, 30 s without a byte and 5 minutes for a body, 5 minutes of silence in a stream, 10 s to connect, 11 minutes to end.
    fn default() -> Self {
        Table::default().into()
    }
}

impl From<Table> for Limits {
    fn from(table: Table) -> Limits {
        let size = |value: Option<Size>, without: usize| value.map_or(without, |size| size.0);
        let count = |value: Option<Count>, without: usize| {
            value.map_or(without, |count| usize::try_from(count.0).unwrap_or(usize::MAX))
        };
        let seconds = |value, without| span(value, Duration::from_secs(without));
        Limits {
            // Less than this the server's parser can't work with.
            header_bytes: size(table.header_bytes, 64 << 10).max(8 << 10),
            header_lines: count(table.header_lines, 100),
            key_bytes: count(table.key_bytes, 255).min(settled_http::idempotency_key::MAX_KEY),
            body_bytes: size(table.body_bytes, 8 << 20),
            stored_bytes: size(table.stored_bytes, 16 << 20),
            in_flight_per_principal: count(table.in_flight_per_principal, 256),
            connections: count(table.connections, 16_384),
            header_timeout: seconds(table.header_timeout, 30),
            body_idle_timeout: seconds(table.body_idle_timeout, 30),
            body_timeout: seconds(table.body_timeout, 300),
            stream_silence: seconds(table.stream_silence, 300),
            connect_timeout: seconds(table.connect_timeout, 10),
            drain_timeout: seconds(table.drain_timeout, 660),
        }
    }
}
