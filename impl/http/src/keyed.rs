//! A client of servers that take idempotency keys: no ledger, no engine, only retries that do no harm.

mod answer;
mod meaning;
mod pace;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method};
use http_body_util::BodyExt;
use reqwest::{IntoUrl, Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, RequestBuilder};
use settled::RetryBudget;
use tokio::time::{Instant, sleep_until, timeout_at};

pub use self::answer::{Answer, NotDone, WhyUnknown};
pub use self::meaning::Rejections;
use self::meaning::{Meaning, Next, meaning};
use self::pace::Pace;
use crate::classify::Declared;
use crate::client::sends_once;
use crate::idempotency_key::{self, IDEMPOTENCY_KEY, Syntax};

/// How a [`Client`] goes about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// How often a request is sent at most.
    pub attempts: u32,
    /// How long one attempt may take before its answer counts as lost.
    pub attempt_timeout: Duration,
    /// How long a call may take, with all of its attempts and the waits between them.
    pub deadline: Duration,
    /// Before the second attempt, a random time up to this is waited; up to twice as long before the third, and so on.
    pub backoff: Duration,
    /// But never longer than this, unless the server asks for it.
    pub longest_backoff: Duration,
    /// How many retries all calls of a client may make together.
    pub budget: RetryBudget,
    /// What it proves that the server rejects a request.
    pub rejections: Rejections,
    /// What statuses of the server mean, where that is not what is usual.
    pub declared: Declared,
    /// The largest body of a response, in bytes. Of a larger one it is only told that the operation happened.
    pub max_response: usize,
}

impl Default for ClientOptions {
    /// Five attempts of 30 seconds within two minutes, waits from 200 ms to 10 s, a retry budget as the engine's, rejections that
    /// prove nothing, responses of up to 8 MiB.
    fn default() -> Self {
        ClientOptions {
            attempts: 5,
            attempt_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(120),
            backoff: Duration::from_millis(200),
            longest_backoff: Duration::from_secs(10),
            budget: RetryBudget::default(),
            rejections: Rejections::default(),
            declared: Declared::new(),
            max_response: 8 << 20,
        }
    }
}

/// Sends requests under idempotency keys to a server that takes them, such as `settled gateway` or one that follows
/// draft-ietf-httpapi-idempotency-key-header: one key per operation, the same one on each of its attempts. That the operation
/// happens once is the server's doing; this retries so that it does no harm, and tells the truth about what came of it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use settled_http::{Answer, Client, ClientOptions};
///
/// let client = Client::new(reqwest::Client::builder(), ClientOptions::default())?;
/// let charge = client.post("https://payments.example/v1/charges").json(&[("cents", 4200)]).build()?;
/// match client.call(charge).send().await {
///     Answer::Done(response) => println!("charged: {}", response.text().await?),
///     Answer::NotDone(why) => println!("not charged, and it may be tried anew: {why}"),
///     Answer::Unknown { key, why } => println!("do not charge again under another key than {key}: {why}"),
/// }
/// # Ok(()) }
/// ```
///
/// [`Answer::NotDone`] is told only where it is proven: nothing was sent, or the server said so of the only attempt that it can
/// have got, or of the key.
#[derive(Clone, Debug)]
pub struct Client {
    http: ClientWithMiddleware,
    options: Arc<ClientOptions>,
    pace: Arc<Pace>,
}

/// One operation, before it is sent.
#[derive(Debug)]
#[must_use = "nothing is sent before `send`"]
pub struct Call {
    client: Client,
    request: Request,
    key: Key,
    deadline: Duration,
}

/// An operation's key.
#[derive(Clone, Debug)]
enum Key {
    /// The header of the request, if it has one, or else a random one.
    OfTheRequest,
    /// It may have been sent before.
    Known(String),
    /// It was never sent.
    Fresh(String),
}

impl Client {
    /// A client that sends by one that is built from `client`, with retries and redirects switched off: they would send a
    /// request unseen.
    ///
    /// # Errors
    /// If the client can't be built.
    pub fn new(client: reqwest::ClientBuilder, options: ClientOptions) -> Result<Client, reqwest::Error> {
        let client = sends_once(client)?;
        let pace = Arc::new(Pace::new(&options));
        Ok(Client { http: ClientBuilder::new(client).build(), options: Arc::new(options), pace })
    }

    /// Sends every attempt through this, too, after what was given before. It must not send a request more than once, and an
    /// error of its own counts as a lost answer.
    pub fn with(self, middleware: impl Middleware) -> Client {
        let http = ClientBuilder::from_client(self.http).with(middleware).build();
        Client { http, ..self }
    }

    /// Begins a request.
    pub fn request(&self, method: Method, url: impl IntoUrl) -> RequestBuilder {
        self.http.request(method, url)
    }

    /// Begins a POST.
    pub fn post(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// One operation: this request, under a key of its own. A request that has an `Idempotency-Key` keeps that; it then counts
    /// as one that may have been sent before.
    pub fn call(&self, request: Request) -> Call {
        Call { client: self.clone(), request, key: Key::OfTheRequest, deadline: self.options.deadline }
    }
}

impl Call {
    /// Under a key that an earlier call may have used, perhaps of an earlier process: this one asks what became of it, or
    /// carries it out. That nothing was sent now proves nothing then.
    pub fn key(self, key: impl Into<String>) -> Call {
        Call { key: Key::Known(key.into()), ..self }
    }

    /// Under a key under which nothing was sent before.
    pub fn fresh_key(self, key: impl Into<String>) -> Call {
        Call { key: Key::Fresh(key.into()), ..self }
    }

    /// How long it may take, instead of [`ClientOptions::deadline`].
    pub fn deadline(self, deadline: Duration) -> Call {
        Call { deadline, ..self }
    }

    /// Sends it until it has an answer, or no attempt, token or time is left. Dropping the returned future leaves it open
    /// whether it happened.
    pub async fn send(mut self) -> Answer {
        let (key, header, is_known) = match self.named() {
            Ok(named) => named,
            Err(why) => return Answer::NotDone(NotDone::NotARequest(why)),
        };
        self.request.headers_mut().insert(IDEMPOTENCY_KEY, header);
        let ends = Instant::now() + self.deadline;
        let options = self.client.options.clone();
        self.client.pace.count();
        // Whether anything that was sent under the key may have taken effect, or may still.
        let mut may_apply = is_known;
        for attempt in 1_u32.. {
            let Some(request) = self.request.try_clone() else {
                let why = "its body is a stream, which can't be sent again";
                return Answer::NotDone(NotDone::NotARequest(why.to_owned()));
            };
            let unknown = |why| Answer::Unknown { key: key.clone(), why };
            let (told, next) = match self.client.once(request, ends).await {
                Meaning::Done(response) => return Answer::Done(response),
                Meaning::Remembered(response) => return Answer::NotDone(NotDone::Rejected(response)),
                Meaning::NothingBy(why, next) if may_apply => (unknown(why.into()), next),
                Meaning::NothingBy(why, next) => (Answer::NotDone(why), next),
                Meaning::Open(why, next) => {
                    may_apply = true;
                    (unknown(why), next)
                }
            };
            let again = match next {
                Next::Again(after) => Instant::now().checked_add(self.client.pace.wait(attempt, after)),
                Next::Stop => None,
            };
            match again {
                Some(at) if attempt < options.attempts && at < ends && self.client.pace.may_retry() => {
                    sleep_until(at).await
                }
                _ => return told,
            }
        }
        // The loop ends by an answer only.
        Answer::Unknown { key, why: WhyUnknown::NoAnswer("it was not asked for".to_owned()) }
    }

    /// The key, the header for it, and whether it may have been sent before.
    fn named(&self) -> Result<(String, HeaderValue, bool), String> {
        let (key, is_known) = match &self.key {
            Key::Known(key) => (key.clone(), true),
            Key::Fresh(key) => (key.clone(), false),
            Key::OfTheRequest => match idempotency_key::parse(self.request.headers(), Syntax::Lenient) {
                Ok(Some(key)) => (key, true),
                Ok(None) => (random()?, false),
                Err(error) => return Err(error.to_string()),
            },
        };
        let header = idempotency_key::value(&key).filter(|_| (1..=idempotency_key::MAX_KEY).contains(&key.len()));
        let header = header.ok_or("its key must have 1 to 255 characters, all of them visible ASCII or spaces")?;
        Ok((key, header, is_known))
    }
}

impl Client {
    /// One attempt, to the end of its answer.
    async fn once(&self, request: Request, ends: Instant) -> Meaning {
        let options = &self.options;
        let until = Instant::now().checked_add(options.attempt_timeout).map_or(ends, |until| until.min(ends));
        let sending = async {
            let response = self.http.execute(request).await.map_err(|error| meaning::of_error(&error))?;
            whole(response, options.max_response).await.map_err(meaning::lost)
        };
        match timeout_at(until, sending).await {
            Ok(Ok(whole)) => meaning(whole, options),
            Ok(Err(meaning)) => meaning,
            Err(_) => meaning::lost("no answer came in time".to_owned()),
        }
    }
}

/// An answer of which all has come. `None` for the body: it is larger than what is taken.
type Whole = (http::response::Parts, Option<Bytes>);

async fn whole(response: Response, limit: usize) -> Result<Whole, String> {
    let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
    let mut body = std::pin::pin!(body);
    let (mut so_far, mut too_long) = (BytesMut::new(), false);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| meaning::causes(&error))?;
        let Ok(chunk) = frame.into_data() else { continue };
        too_long |= so_far.len() + chunk.len() > limit;
        if !too_long {
            so_far.extend_from_slice(&chunk);
        }
    }
    Ok((parts, (!too_long).then(|| so_far.freeze())))
}

/// A random UUID.
fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random key can be had: {error}"))?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}
