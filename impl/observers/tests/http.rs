//! Asking by HTTP, over real connections.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use serde_json::json;
use settled_observers::{Http, Secret, Verdict};
use support::{Server, given, http, unclear};

#[tokio::test]
async fn any_success_is_applied_and_only_404_is_not() {
    for status in ["200 OK", "201 Created"] {
        let server = Server::answering(status, r#"{"state":"charged"}"#).await;
        let seen = http(&format!("http://{}/x/{{id}}", server.address), &[]).ask(&given(r#"{"id":7}"#)).await;
        assert_eq!(seen, Verdict::Applied(json!({"state": "charged"})), "{status}");
    }
    let server = Server::answering("404 Not Found", "no").await;
    let seen = http(&format!("http://{}/x/{{id}}", server.address), &[]).ask(&given(r#"{"id":7}"#)).await;
    assert_eq!(seen, Verdict::NotApplied);
    for status in ["400 Bad", "401 Who", "403 No", "410 Gone", "429 Slow", "500 Oh", "503 Oh", "302 Elsewhere"] {
        let server = Server::answering(status, "{}").await;
        let seen = http(&format!("http://{}/x/{{id}}", server.address), &[]).ask(&given(r#"{"id":7}"#)).await;
        assert!(unclear(&seen).contains(&status[..3]), "{seen:?}");
    }
}

#[tokio::test]
async fn the_question_is_a_get_with_its_headers_and_values_percent_encoded() {
    let server = Server::answering("200 OK", "{}").await;
    let url = format!("http://{}/v1/{{$key}}/{{a.b}}?n={{$attempt}}&q={{q}}", server.address);
    let path = std::env::var("PATH").unwrap();
    let observer = http(&url, &[("X-Plain", "plain"), ("Authorization", "Bearer env:PATH")]);
    observer.ask(&given(r#"{"a":{"b":"x/../y?z#%&"},"q":"ä b"}"#)).await;
    let requests = server.requests();
    let request = &requests[0];
    let line = "GET /v1/the%20key/x%2F..%2Fy%3Fz%23%25%26?n=2&q=%C3%A4%20b HTTP/1.1";
    assert_eq!(request.lines().next(), Some(line));
    assert!(
        request.contains(&format!("authorization: Bearer {path}")) && request.contains("x-plain: plain"),
        "{request}"
    );
    assert!(request.contains("cache-control: no-cache"), "{request}");
    assert!(!format!("{observer:?}").contains(&path), "secrets are not printed");
}

#[tokio::test]
async fn a_value_never_changes_what_is_asked() {
    let server = Server::answering("404 Not Found", "").await;
    let observer = http(&format!("http://{}/orders/{{id}}", server.address), &[]);
    for id in ["..", ".", ""] {
        let seen = observer.ask(&given(&json!({ "id": id }).to_string())).await;
        unclear(&seen);
    }
    unclear(&observer.ask(&given("{}")).await);
    unclear(&observer.ask(&given(r#"{"id":null}"#)).await);
    unclear(&observer.ask(&given(r#"{"id":12345678901234567890123}"#)).await);
    assert_eq!(server.requests(), [""; 0]);
}

#[tokio::test]
async fn failures_on_the_way_say_nothing() {
    let slow = Server::saying("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nab", Duration::from_secs(60)).await;
    let seen = http(&format!("http://{}/{{id}}", slow.address), &[]).ask(&given(r#"{"id":1}"#)).await;
    assert!(unclear(&seen).contains("within 3 s"), "{seen:?}");
    let broken = Server::saying("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nab", Duration::ZERO).await;
    unclear(&http(&format!("http://{}/{{id}}", broken.address), &[]).ask(&given(r#"{"id":1}"#)).await);
    let garbage = Server::saying("404", Duration::ZERO).await;
    unclear(&http(&format!("http://{}/{{id}}", garbage.address), &[]).ask(&given(r#"{"id":1}"#)).await);
    let nobody = settled_test_services::ports::free().unwrap();
    let seen = http(&format!("http://127.0.0.1:{nobody}/{{id}}"), &[]).ask(&given(r#"{"id":"secret"}"#)).await;
    assert!(!unclear(&seen).contains("secret"), "{seen:?}");
    let long = Server::answering("404 Not Found", &"x".repeat((1 << 20) + 1)).await;
    let seen = http(&format!("http://{}/{{id}}", long.address), &[]).ask(&given(r#"{"id":1}"#)).await;
    assert!(unclear(&seen).contains("longer"), "{seen:?}");
    for server in [&broken, &garbage] {
        assert_eq!(server.requests().len(), 1, "asked once, without retries");
    }
}

#[tokio::test]
async fn redirects_say_nothing() {
    for end in ["404 Not Found", "200 OK"] {
        let other = Server::answering(end, "").await;
        for status in
            ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "304 Not Modified"]
        {
            let answer = format!(
                "HTTP/1.1 {status}\r\nLocation: http://{}/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                other.address
            );
            let server = Server::saying(answer, Duration::ZERO).await;
            let observer = http(&format!("http://{}/{{id}}", server.address), &[("Authorization", "secret")]);
            let seen = observer.ask(&given(r#"{"id":1}"#)).await;
            assert!(unclear(&seen).contains("redirects"), "{seen:?}");
        }
        assert_eq!(other.requests(), [""; 0]);
    }
}

#[tokio::test]
async fn a_web_page_is_no_answer_to_a_question_unless_declared() {
    for (page, clean) in
        [("<!DOCTYPE html><title>no such page</title>", false), (" <html>", false), ("", true), ("{}", true)]
    {
        let server = Server::answering("404 Not Found", page).await;
        let seen = http(&format!("http://{}/{{id}}", server.address), &[]).ask(&given(r#"{"id":1}"#)).await;
        assert_eq!(seen == Verdict::NotApplied, clean, "{page}: {seen:?}");
        assert!(clean || unclear(&seen).contains("404"), "{seen:?}");
    }
}

#[test]
fn what_can_not_be_used_is_refused() {
    let wrong = |url: &str| Http::parse(url, []).unwrap_err().to_string();
    for url in ["https://{host}/x", "https://bank{x}/", "{url}", "{scheme}://bank/x", "https://bank:{port}/x"] {
        let error = wrong(url);
        assert!(error.contains("host"), "{url}: {error}");
    }
    assert!(wrong("ftp://bank/{id}").contains("https://"));
    assert!(wrong("https:///{id}").contains("host"));
    assert!(wrong("https://bank/a/../{id}").contains("read as"));
    assert!(wrong("https://bank/a b/{id}").contains("read as"));
    assert!(wrong("https://bank/{$scope}").contains("not known here"));
    let header = |name: &str, value: &str| Http::parse("https://bank/{id}", [(name.to_owned(), Secret::new(value))]);
    assert!(header("a b", "x").is_err() && header("a", "x\ny").is_err() && header("a", "env:X y").is_ok());
}
