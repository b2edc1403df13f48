//! Ways into the parts that parse, for fuzz targets only: not part of the interface, and never to be relied on.

use bytes::Bytes;
use tokio::io::AsyncReadExt;

use crate::flag::Flag;
use crate::messages::frame::{Body, Frame, IdKey, parse};
use crate::messages::lines::{self, Lines, write_to_client};
use crate::messages::splice;

/// What a line is, with the texts in it that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A request: its id, its method, its parameters.
    Request(&'a str, String, Option<&'a str>),
    /// A notification: its method, its parameters.
    Notification(String, Option<&'a str>),
    /// An answer: its id, and its result or its error.
    Response(&'a str, Result<&'a str, &'a str>),
    /// Several messages.
    Batch(Vec<&'a str>),
    /// JSON, but none of these.
    Other,
    /// Not JSON in UTF-8; whether it could be taken for a tool call.
    Broken(bool),
}

/// Reads a line.
pub fn line(line: &[u8]) -> Line<'_> {
    match parse(line) {
        Frame::Request { id, method, params } => Line::Request(id, method.into_owned(), params),
        Frame::Notification { method, params } => Line::Notification(method.into_owned(), params),
        Frame::Response { id, body: Body::Result(result) } => Line::Response(id, Ok(result)),
        Frame::Response { id, body: Body::Error(error) } => Line::Response(id, Err(error)),
        Frame::Batch(members) => Line::Batch(members),
        Frame::Other => Line::Other,
        Frame::Broken { may_call, .. } => Line::Broken(may_call),
    }
}

/// Whether two request ids are the same.
pub fn same_id(one: &str, other: &str) -> bool {
    IdKey::new(one) == IdKey::new(other)
}

/// The text without the white space around it, if it is JSON.
pub fn valid(text: &str) -> Option<&str> {
    splice::valid(text)
}

/// A member's value in an object's text.
pub fn get<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    splice::get(object, name)
}

/// The object's text with that member set.
pub fn set(object: &str, name: &str, value: &str) -> Option<String> {
    splice::set(object, name, value)
}

/// Takes bytes through the reader of lines and the writer of lines, as whatever is relayed goes.
pub async fn relay(bytes: &[u8]) -> Vec<u8> {
    let (near, mut far) = tokio::io::duplex(64);
    let (client, writing) = write_to_client(near, Flag::default());
    let mut lines = Lines::new(bytes, usize::MAX >> 1);
    let mut relayed = Vec::new();
    let sending = async move {
        while let Ok(Some(lines::Line::Whole(line))) = lines.next().await {
            client.send(Bytes::clone(&line)).await;
        }
    };
    let reading = far.read_to_end(&mut relayed);
    let (_, read) = tokio::join!(sending, reading);
    drop((read, writing));
    relayed
}
