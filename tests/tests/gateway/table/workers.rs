//! The clients, at work: scripts that take jobs, and curl.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use settled_tests::{ApiClient, Running, Stage};

use super::cell::{Client, Operation};

/// What a client is to do: see `tests/clients/python/api_client.py`.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    pub id: String,
    #[serde(skip)]
    pub by: Client,
    pub client: &'static str,
    #[serde(skip)]
    pub asked: Operation,
    pub operation: &'static str,
    pub url: String,
    pub key: Option<String>,
    pub headers: Value,
    pub attempts: u32,
    pub ends_when_unknown: bool,
    pub timeout_ms: u64,
    pub pause_ms: u64,
}

/// What one attempt of a caller came to.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Attempt {
    pub status: Option<u16>,
    pub whole: bool,
    pub text: String,
    #[allow(dead_code, reason = "printed")]
    pub error: Option<String>,
    /// The type of problem; some libraries don't tell.
    pub problem: Option<String>,
    #[allow(dead_code, reason = "printed")]
    pub replayed: bool,
}

#[derive(Deserialize)]
struct Done {
    id: String,
    attempts: Vec<Attempt>,
}

/// The scripts of a scene. A script carries out many jobs at once.
pub struct Workers<'a> {
    stage: &'a Stage,
    python: Option<Running>,
    node: Option<Running>,
}

impl<'a> Workers<'a> {
    pub fn new(stage: &'a Stage) -> Workers<'a> {
        Workers { stage, python: None, node: None }
    }

    /// Carries them all out; what each came to, by its id.
    pub fn carry_out(&mut self, jobs: &[Job]) -> Vec<(String, Vec<Attempt>)> {
        let of = |clients: &[Client]| jobs.iter().filter(|job| clients.contains(&job.by)).collect::<Vec<_>>();
        let scripted = [
            (ApiClient::Python, of(&[Client::Httpx, Client::OpenaiPython]), &mut self.python),
            (ApiClient::Node, of(&[Client::Fetch, Client::OpenaiNode]), &mut self.node),
        ];
        let mut asked = Vec::new();
        for (script, jobs, worker) in scripted {
            if jobs.is_empty() {
                continue;
            }
            let worker = worker.get_or_insert_with(|| self.stage.start_api_client(script));
            for job in &jobs {
                let line = serde_json::to_string(job).expect("a job is JSON");
                assert!(worker.write(format!("{line}\n").as_bytes()), "{script:?} ended: {}", worker.stderr());
            }
            asked.push((jobs.len(), worker));
        }
        let curls = of(&[Client::Curl]);
        let mut done = all_by_curl(self.stage, &curls);
        for (count, worker) in asked {
            for _ in 0..count {
                let line = worker.next_line().unwrap_or_else(|| panic!("a client ended: {}", worker.stderr()));
                let its: Done = serde_json::from_str(&line).expect("a client prints JSON");
                done.push((its.id, its.attempts));
            }
        }
        done
    }
}

fn all_by_curl(stage: &Stage, jobs: &[&Job]) -> Vec<(String, Vec<Attempt>)> {
    const AT_ONCE: usize = 8;
    let next = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(jobs.len()) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    let attempts = by_curl(stage, job);
                    done.lock().unwrap().push((job.id.clone(), attempts));
                }
            });
        }
    });
    done.into_inner().unwrap()
}

fn by_curl(stage: &Stage, job: &Job) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    let is_over = |last: &Attempt| last.whole || (job.ends_when_unknown && last.status == Some(502));
    while attempts.len() < job.attempts as usize && !attempts.last().is_some_and(is_over) {
        if !attempts.is_empty() {
            std::thread::sleep(Duration::from_millis(job.pause_ms));
        }
        attempts.push(one_curl(stage, job));
    }
    attempts
}

fn one_curl(stage: &Stage, job: &Job) -> Attempt {
    let (operation, path) = match job.asked {
        Operation::Charges => ("charges", "/v1/charges"),
        Operation::Chat | Operation::ChatStream => ("chat", "/v1/chat/completions"),
        Operation::Responses | Operation::ResponsesStream => ("responses", "/v1/responses"),
        Operation::Messages | Operation::MessagesStream => ("messages", "/v1/messages"),
    };
    let body = json!({ "model": "fake-1", "amount": 500, "stream": job.asked.is_stream() });
    let (output, head) = (stage.path(&format!("{}.body", job.id)), stage.path(&format!("{}.head", job.id)));
    let mut command = Command::new("curl");
    command
        .args(["--silent", "--show-error", "--no-buffer", "--retry", "2", "--retry-all-errors", "--retry-delay", "1"])
        .args(["--max-time", &format!("{:.3}", Duration::from_millis(job.timeout_ms).as_secs_f64())])
        .args(["--header", "Content-Type: application/json", "--data-raw", &body.to_string()])
        .arg("--output")
        .arg(&output)
        .arg("--dump-header")
        .arg(&head)
        .stdin(Stdio::null());
    if let Some(key) = &job.key {
        command.args(["--header", &format!("Idempotency-Key: \"{key}\"")]);
    }
    for (name, value) in job.headers.as_object().into_iter().flatten() {
        command.args(["--header", &format!("{name}: {}", value.as_str().unwrap_or_default())]);
    }
    let ended = command.arg(format!("{}{path}", job.url)).output().expect("curl is installed");
    let body = std::fs::read(&output).unwrap_or_default();
    let heads = std::fs::read_to_string(&head).unwrap_or_default();
    // Of several tries, the last one's.
    let last = heads.rfind("HTTP/1.1 ").and_then(|at| heads.get(at..)).unwrap_or_default().to_ascii_lowercase();
    let status = last.split(' ').nth(1).and_then(|status| status.parse().ok());
    let read: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = match job.asked.is_stream() && status == Some(200) {
        true => text_of_events(operation, &String::from_utf8_lossy(&body)),
        false => text_of(operation, &read),
    };
    Attempt {
        status,
        whole: ended.status.success() && status == Some(200),
        text,
        error: (!ended.status.success()).then(|| String::from_utf8_lossy(&ended.stderr).trim().to_owned()),
        problem: read["type"].as_str().map(str::to_owned),
        replayed: last.contains("idempotency-replayed: true"),
    }
}

fn text_of(operation: &str, answer: &Value) -> String {
    let place = match operation {
        "charges" => "/description",
        "chat" => "/choices/0/message/content",
        "responses" => "/output/0/content/0/text",
        _ => "/content/0/text",
    };
    answer.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn text_of_events(operation: &str, body: &str) -> String {
    let events = body.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?).ok());
    let delta = |event: Value| match operation {
        "chat" => event.pointer("/choices/0/delta/content").and_then(Value::as_str).map(str::to_owned),
        "responses" if event["type"] == "response.output_text.delta" => event["delta"].as_str().map(str::to_owned),
        "messages" => event.pointer("/delta/text").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    events.filter_map(delta).collect()
}
