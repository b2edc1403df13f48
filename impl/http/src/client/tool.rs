//! An HTTP server, as the engine's tool.

use std::time::SystemTime;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use reqwest::{Request, Response};
use settled::{Outgoing, Tool, ToolReply};
use settled_protocol::ErrorClass;

use super::{GuardMiddleware, GuardedRequest, request};
use crate::classify::{Class, Heard, classify, heard_of};
use crate::message;

/// Sends a request: the one that was just made, or what was stored of an earlier one.
pub(super) struct HttpTool {
    pub(super) middleware: GuardMiddleware,
    pub(super) terms: GuardedRequest,
    pub(super) live: Option<Request>,
}

#[async_trait]
impl Tool for HttpTool {
    async fn dispatch(&self, outgoing: &Outgoing) -> ToolReply {
        let mut request = match self.request(outgoing) {
            Ok(request) => request,
            Err(why) => return ToolReply::Error(ErrorClass::NotRun, Bytes::from_static(why.as_bytes())),
        };
        if let Some(add) = &self.middleware.credentials {
            add(&mut request);
        }
        let sent = self.middleware.client.execute(request).await;
        outgoing.sent();
        match sent {
            Ok(response) => self.reply(response).await,
            Err(error) => self.failed(&error),
        }
    }
}

impl HttpTool {
    fn request(&self, outgoing: &Outgoing) -> Result<Request, &'static str> {
        let mut request = match &self.live {
            Some(live) => live.try_clone().ok_or("the request's body can be sent only once")?,
            None => match request::read(&outgoing.arguments) {
                Some((_, true)) if self.middleware.credentials.is_none() => {
                    return Err("the recorded request needs credentials, and there is nothing that adds them");
                }
                Some((request, _)) => request,
                None => return Err("no request is recorded"),
            },
        };
        if let Some((name, key)) = self.terms.key_for_server(&outgoing.key, outgoing.attempt) {
            request.headers_mut().entry(name).or_insert(key);
        }
        Ok(request)
    }

    fn failed(&self, error: &reqwest::Error) -> ToolReply {
        let class = classify(heard_of(error), &self.terms.declared, SystemTime::now());
        class.into_reply(Bytes::from(chain(error)), &self.terms.policy)
    }

    async fn reply(&self, mut response: Response) -> ToolReply {
        let (status, headers) = (response.status(), response.headers().clone());
        let heard = Heard::Response { status, headers: &headers };
        let class = classify(heard, &self.terms.declared, SystemTime::now());
        let mut body = BytesMut::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > self.terms.max_response => {
                    return class.into_reply(message::not_kept(class == Class::Done, status), &self.terms.policy);
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return self.failed(&error),
            }
        }
        let answer = message::write_response(status, &headers, &body, message::is_kept);
        class.into_reply(answer, &self.terms.policy)
    }
}

/// An error with its causes. A URL can carry secrets, so it is left out.
fn chain(error: &reqwest::Error) -> String {
    let mut text = String::from("the request was not sent");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
