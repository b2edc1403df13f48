//! What the server sends without being asked, and streams that are taken up again (revisions 2025-03-26 to 2025-11-25).

use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Method, StatusCode};
use reqwest::{Request, Response};
use settled::task;
use tokio::time::{Instant, sleep};

use crate::messages::context::Context;
use crate::upstream::answers::{Ended, Reading, content_type};
use crate::upstream::chain;
use crate::upstream::flights::Flight;
use crate::upstream::headers::{self, LAST_EVENT, is_stateless};
use crate::upstream::link::Shared;
use crate::upstream::opened::Opened;
use crate::upstream::post::Whose;
use crate::upstream::proves::Failure;

/// The wait before a stream is asked for again, unless the server says how long it wants it to be.
const PAUSE: Duration = Duration::from_secs(1);

/// The shortest wait, whatever the server says.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// The longest wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a server may be out of reach before the answers that it owes are given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a GET is answered with.
enum Stream {
    /// Events.
    Events(Response),
    /// A status instead.
    Status(StatusCode),
    /// Nothing.
    Unreachable(String),
}

/// Waits that double, with some chance in them so that not all clients come back at once.
struct Pauses(u32);

impl Pauses {
    fn next(&mut self, asked: Option<Duration>) -> Duration {
        let doubled = PAUSE.saturating_mul(1 << self.0.min(6)).min(LONGEST_PAUSE);
        self.0 += 1;
        let wait = asked.map_or(doubled, |asked| if self.0 == 1 { asked } else { asked.max(doubled) });
        wait.max(SHORTEST_PAUSE).mul_f64(1.0 + fastrand::f64() / 4.0)
    }

    fn start_over(&mut self) {
        self.0 = 0;
    }
}

impl Shared {
    /// Reads what the server sends without being asked, as long as the session lasts.
    pub(crate) fn listen(self: &Arc<Self>, session: Arc<Opened>) {
        if is_stateless(session.revision.as_deref()) {
            return;
        }
        let shared = self.clone();
        task::spawn(async move {
            tokio::select! {
                biased;
                () = shared.give_up.raised() => {}
                () = shared.ending.raised() => {}
                () = session.over.raised() => {}
                () = shared.keep_listening(&session) => {}
            }
        });
    }

    async fn keep_listening(&self, session: &Arc<Opened>) {
        let flight = Flight::default();
        let mut reading = Reading {
            wanted: Vec::new(),
            endless: true,
            opens: false,
            lists: false,
            flight: &flight,
            whose: &Whose::Nobody,
            last_event: None,
            retry: None,
        };
        let mut pauses = Pauses(0);
        loop {
            let context = self.latest(&Arc::new(Context::default()));
            match self.get(Some(session), &context, reading.last_event.as_deref()).await {
                Stream::Events(response) => {
                    let begun = Instant::now();
                    if let Ended::Broken(why) = self.read_stream(response, &mut reading).await {
                        tracing::warn!("the stream of the server's own messages: {why}");
                        reading.last_event = None;
                    }
                    // One that is closed at once, again and again, is asked for less and less often.
                    if begun.elapsed() > PAUSE {
                        pauses.start_over();
                    }
                }
                Stream::Status(StatusCode::METHOD_NOT_ALLOWED) => return,
                Stream::Status(StatusCode::NOT_FOUND) if session.id.is_some() => return self.current.ended(session),
                // Its authorization may be renewed, by a message that comes later.
                Stream::Status(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS) => {}
                Stream::Status(status) if status.is_client_error() || status.is_success() => {
                    tracing::debug!(%status, "the server offers no stream of its own messages");
                    return;
                }
                Stream::Status(status) => tracing::debug!(%status, "the stream of the server's own messages"),
                Stream::Unreachable(why) => tracing::debug!("the stream of the server's own messages: {why}"),
            }
            sleep(pauses.next(reading.retry)).await;
        }
    }

    /// Takes up a stream that was cut before everything was answered (revision 2025-11-25, "Resumability and Redelivery"). The
    /// request itself is never sent again.
    pub(crate) async fn resume(
        &self,
        mut reading: Reading<'_>,
        session: Option<&Opened>,
        context: &Context,
        mut why: String,
    ) -> Result<(), Failure> {
        let mut pauses = Pauses(0);
        let mut failing_since: Option<Instant> = None;
        while let Some(last_event) = reading.last_event.clone() {
            let asking = async {
                sleep(pauses.next(reading.retry)).await;
                self.get(session, context, Some(&last_event)).await
            };
            let stream = tokio::select! {
                biased;
                stream = asking => stream,
                () = self.leaves(reading.flight, reading.whose) => return Err(Failure::lost(why)),
            };
            let problem = match stream {
                Stream::Events(response) => {
                    failing_since = None;
                    match self.read_stream(response, &mut reading).await {
                        Ended::Done => return Ok(()),
                        Ended::Broken(problem) => return Err(Failure::lost(problem)),
                        Ended::Cut(problem) => why = problem,
                    }
                    pauses.start_over();
                    continue;
                }
                Stream::Status(status) if status.is_server_error() => format!("HTTP status {status}"),
                Stream::Status(status) => {
                    return Err(Failure::lost(format!(
                        "{why}, and the server does not take it up again (HTTP status {status})"
                    )));
                }
                Stream::Unreachable(problem) => problem,
            };
            let since = *failing_since.get_or_insert_with(Instant::now);
            if since.elapsed() > PATIENCE {
                return Err(Failure::lost(format!("{why}, and it can't be taken up again: {problem}")));
            }
        }
        Err(Failure::lost(why))
    }

    async fn get(&self, session: Option<&Opened>, context: &Context, last_event: Option<&str>) -> Stream {
        let mut headers = headers::without_message(context, session, &self.http.fixed);
        if let Some(id) = last_event {
            // An id that can't be in a header can't be resumed from.
            let Ok(id) = HeaderValue::from_bytes(id.as_bytes()) else { return Stream::Status(StatusCode::BAD_REQUEST) };
            headers.insert(LAST_EVENT, id);
        }
        let mut request = Request::new(Method::GET, self.http.url.clone());
        *request.headers_mut() = headers.clone();
        match self.http.client.execute(request).await {
            Ok(response) => {
                self.http.heard(&headers, response.status());
                let is_events = content_type(response.headers()).as_deref() == Some("text/event-stream");
                match response.status() {
                    StatusCode::OK if is_events => Stream::Events(response),
                    status => Stream::Status(status),
                }
            }
            Err(error) => Stream::Unreachable(chain(error)),
        }
    }
}
