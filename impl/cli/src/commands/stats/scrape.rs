//! What a running process has counted, read from its `/metrics`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::failure::Failure;

/// What a process has counted since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Process {
    /// Calls by what they were answered with.
    pub answers: BTreeMap<String, u64>,
    /// All calls.
    pub calls: u64,
    /// Those that were answered from what was stored, or with another call's answer.
    pub deduplicated: u64,
    /// Those with a known key and other arguments.
    pub conflicts: u64,
    /// How often the process found that its lease had run out.
    pub fenced: u64,
    /// Operations taken over.
    pub takeovers: u64,
    /// Retries put off because the budget of all processes was used up.
    pub retry_budget_refused: u64,
    /// Changes that became durable.
    pub stores: u64,
    /// Half of them within so many seconds; `None` if there were none.
    pub store_p50: Option<f64>,
    /// 99 % of them within so many seconds.
    pub store_p99: Option<f64>,
}

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// More is not read.
const MOST: u64 = 16 << 20;

/// Asks a process.
///
/// # Errors
/// If it can't be asked, or answers with something else.
pub async fn process(url: &str) -> Result<Process, Failure> {
    let address = url.strip_prefix("http://").unwrap_or(url);
    if address.contains("://") {
        return Err(Failure::input(format!("--metrics {url}: http://ADDRESS:PORT/metrics is expected")));
    }
    let (host, path) = address.split_once('/').unwrap_or((address, "metrics"));
    let asked = timeout(PATIENCE, get(host, path)).await;
    let answer = asked.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
    let answer = answer.map_err(|error| Failure::nothing(format!("--metrics {url}: {error}")))?;
    let lines = answer.strip_prefix("HTTP/1.").and_then(|rest| rest.get(1..)?.strip_prefix(" 200"));
    match lines.and_then(|rest| rest.split_once("\r\n\r\n")) {
        Some((_, body)) => Ok(read(body)),
        None => Err(Failure::nothing(format!(
            "--metrics {url}: figures were expected, not this answer: {}",
            first_line(&answer)
        ))),
    }
}

async fn get(host: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(host).await?;
    // HTTP/1.0: the answer comes in one piece, and ends with the connection.
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Reads the figures from Prometheus' text format.
fn read(text: &str) -> Process {
    let mut its = Process::default();
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (name, labels, value) in text.lines().filter_map(sample) {
        let count = value as u64;
        let label = |wanted: &str| labels.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        match name {
            "settled_calls_total" => {
                its.calls += count;
                its.deduplicated += if label("replayed") == Some("true") { count } else { 0 };
                let answer = label("answer").unwrap_or("?");
                its.conflicts += if answer == "conflict" { count } else { 0 };
                *its.answers.entry(answer.to_owned()).or_default() += count;
            }
            "settled_fenced_total" => its.fenced += count,
            "settled_takeovers_total" => its.takeovers += count,
            "settled_retry_budget_refused_total" => its.retry_budget_refused += count,
            "settled_store_seconds_count" => its.stores += count,
            "settled_store_seconds_bucket" => {
                buckets.extend(label("le").and_then(|le| le.parse().ok()).map(|le: f64| (le, value)));
            }
            _ => {}
        }
    }
    its.store_p50 = quantile(&buckets, 0.5);
    its.store_p99 = quantile(&buckets, 0.99);
    its
}

type Labels = Vec<(String, String)>;

/// A line `name{label="value",…} number`; comments are none.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let name_ends = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(name_ends);
    let mut labels = Labels::new();
    let mut rest = rest;
    if let Some(mut inside) = rest.strip_prefix('{') {
        while !inside.starts_with('}') {
            let (label, quoted) = inside.split_once("=\"")?;
            let (value, after) = unquoted(quoted)?;
            labels.push((label.trim_start_matches(',').trim().to_owned(), value));
            inside = after;
        }
        rest = inside.get(1..)?;
    }
    let number = rest.split_whitespace().next()?.parse().ok()?;
    Some((name, labels, number))
}

/// Up to the closing quotation mark, and what comes after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// As Prometheus reckons it: evenly spread within a bucket. `None` if nothing was counted.
fn quantile(buckets: &[(f64, f64)], share: f64) -> Option<f64> {
    let total = buckets.last()?.1;
    if total <= 0.0 {
        return None;
    }
    let wanted = share * total;
    let mut below = (0.0, 0.0);
    for &(bound, count) in buckets {
        if count >= wanted {
            if bound.is_infinite() {
                return Some(below.0);
            }
            let within = (wanted - below.1) / (count - below.1).max(1e-9);
            return Some(below.0 + (bound - below.0) * within);
        }
        below = (bound, count);
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    const TEXT: &str = r##"# HELP settled_calls_total calls answered
# TYPE settled_calls_total counter
settled_calls_total{tool="a \"b\\ },\n",answer="done",replayed="false"} 7
settled_calls_total{tool="x",answer="done",replayed="true"} 2
settled_calls_total{tool="x",answer="conflict",replayed="false"} 1
settled_fenced_total 3
settled_store_seconds_bucket{le="0.001"} 50
settled_store_seconds_bucket{le="0.01"} 99
settled_store_seconds_bucket{le="+Inf"} 100
settled_store_seconds_sum 0.4
settled_store_seconds_count 100
something_else{a="b"} 1e3
"##;

    #[test]
    fn figures_are_read() {
        let its = read(TEXT);
        assert_eq!((its.calls, its.deduplicated, its.conflicts, its.fenced), (10, 2, 1, 3));
        assert_eq!(its.answers, BTreeMap::from([("done".to_owned(), 9), ("conflict".to_owned(), 1)]));
        assert_eq!((its.stores, its.store_p50), (100, Some(0.001)));
        assert!((its.store_p99.unwrap() - 0.01).abs() < 1e-9, "{its:?}");
    }

    #[test]
    fn odd_labels_are_read_whole() {
        let (name, labels, value) = sample(r#"n{a="x \"y\\ },\n",b=""} 2"#).unwrap();
        assert_eq!((name, value), ("n", 2.0));
        assert_eq!(labels, [("a".to_owned(), "x \"y\\ },\n".to_owned()), ("b".to_owned(), String::new())]);
        assert!(sample("n{a=\"unended").is_none() && sample("# n 1").is_none() && sample("").is_none());
    }

    #[test]
    fn what_lies_beyond_the_last_bucket_is_at_least_its_bound() {
        assert_eq!(quantile(&[(1.0, 1.0), (f64::INFINITY, 10.0)], 0.99), Some(1.0));
        assert_eq!(quantile(&[(1.0, 0.0), (f64::INFINITY, 0.0)], 0.5), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
