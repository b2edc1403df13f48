//! Messages that wait until the server has listed its tools.

use std::collections::VecDeque;

use serde_json::json;
use tokio::time::Instant;

use crate::behind::server::TRANSPORT_ERROR;
use crate::messages::context::Incoming;
use crate::messages::frame::{Frame, IdKey, cancelled_id, parse};
use crate::relay::Proxy;
use crate::told::answer::error_line;
use crate::told::patience::before_the_client_gives_up;

impl Proxy {
    /// When the first client of a held call is about to give up.
    pub(super) fn held_until(&self, held: &VecDeque<Incoming>) -> Option<Instant> {
        let patience = before_the_client_gives_up(&self.config.defaults)?;
        held.iter().filter(|message| call_id(message).is_some()).map(|message| message.came + patience).min()
    }

    /// Whoever calls and is about to give up is told that nothing was sent; nothing will be.
    pub(super) async fn give_up_held(&self, held: &mut VecDeque<Incoming>) {
        let Some(patience) = before_the_client_gives_up(&self.config.defaults) else { return };
        let mut kept = VecDeque::new();
        for message in held.drain(..) {
            match call_id(&message).filter(|_| message.came + patience <= Instant::now()) {
                Some(id) => {
                    let text = "nothing was sent: the server has not listed its tools in time, so it can't be said whether \
                                the call is to be guarded; call again";
                    let data = json!({ "type": "tools_not_listed" });
                    self.client.send(error_line(&id, TRANSPORT_ERROR, text, Some(&data))).await;
                }
                None => kept.push_back(message),
            }
        }
        *held = kept;
    }
}

pub(super) fn bytes(held: &VecDeque<Incoming>) -> usize {
    held.iter().map(|message| message.line.len()).sum()
}

/// The id of a tool call that is a message of its own.
fn call_id(message: &Incoming) -> Option<String> {
    match parse(&message.line) {
        Frame::Request { id, method, .. } if method == "tools/call" => Some(id.to_owned()),
        _ => None,
    }
}

/// Whether a line cancels a call that is still held: then neither goes any further.
pub(super) fn withdraws(line: &[u8], held: &mut VecDeque<Incoming>) -> bool {
    let Frame::Notification { method, params } = parse(line) else { return false };
    let Some(cancelled) = (method == "notifications/cancelled").then(|| cancelled_id(params)).flatten() else {
        return false;
    };
    let found = held.iter().position(|message| match parse(&message.line) {
        Frame::Request { id, method, .. } => method == "tools/call" && IdKey::new(id) == cancelled,
        _ => false,
    });
    found.and_then(|at| held.remove(at)).is_some()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::messages::context::Context;

    #[test]
    fn a_held_call_can_be_withdrawn() {
        let context = Arc::new(Context::default());
        let message = |line: Bytes| Incoming::bare(line, &context);
        let call =
            |id: &str| Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{}}}}"#));
        let cancel = |id: &str| {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
        };
        let mut held = VecDeque::from(
            [call("1"), call("\"1\""), Bytes::from_static(b"{\"id\":2,\"method\":\"ping\"}")].map(message),
        );
        assert!(!withdraws(cancel("3").as_bytes(), &mut held));
        assert!(
            !withdraws(cancel("2").as_bytes(), &mut held),
            "only calls are withdrawn; the server hears of the rest"
        );
        assert!(!withdraws(&call("1"), &mut held));
        assert!(withdraws(cancel("1").as_bytes(), &mut held));
        assert_eq!(held.len(), 2);
        assert_eq!(held[0].line, call("\"1\""));
    }
}
