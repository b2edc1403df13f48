//! Each kind of ledger, opened by its URL.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use settled::Filter;
use settled_ledgers::{Kind, OpenError, OpenOptions, open, open_existing};
use settled_test_services::postgres::Postgres;
use settled_test_services::redis::Redis;

#[tokio::test]
async fn a_directory_is_made_unless_it_must_be_there() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("ledger");
    let url = format!("file:{}", directory.display());
    let missing = open_existing(&url, OpenOptions::default()).await.unwrap_err();
    assert!(
        matches!(missing, OpenError::Ledger { .. }) && missing.to_string().contains("there is no ledger"),
        "{missing}"
    );
    assert!(!directory.exists());

    let opened = open(&url, OpenOptions::default()).await.unwrap();
    assert_eq!((opened.kind, opened.directory.as_deref()), (Kind::File, Some(&*directory)));
    assert_eq!(opened.display, directory.display().to_string());
    opened.ledger.register(Duration::from_secs(1)).await.unwrap();
    drop(opened);
    let again = open_existing(directory.to_str().unwrap(), OpenOptions::default()).await.unwrap();
    assert!(again.ledger.scan(Filter::All).await.unwrap().is_empty());
}

#[tokio::test]
async fn memory_is_there_at_once() {
    let opened = open("memory:", OpenOptions::default()).await.unwrap();
    assert_eq!((opened.kind.to_string(), &*opened.display, opened.directory), ("memory".to_owned(), "memory:", None));
}

#[tokio::test]
async fn servers_are_connected_to_and_their_passwords_are_not_shown() {
    let (redis, postgres) = (Redis::start().unwrap(), Postgres::start().unwrap());
    for (url, kind) in [(redis.url(), Kind::Redis), (postgres.url(), Kind::Postgres)] {
        let opened = open(&url, OpenOptions::default()).await.unwrap();
        assert_eq!((opened.kind, opened.directory.as_deref()), (kind, None));
        assert!(opened.display.contains("***") && !opened.display.contains("s3cret"), "{}", opened.display);
        opened.ledger.register(Duration::from_secs(1)).await.unwrap();

        let refused = open(&url.replace("s3cret", "guess"), OpenOptions::default()).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, OpenError::Ledger { .. }) && !text.contains("guess"), "{text}");
        // It is named, once.
        assert_eq!(text.matches("://").count(), 1, "{text}");
    }
}

#[tokio::test]
async fn what_is_no_ledger_is_refused() {
    let refused = open("mysql://u:secret@h/d", OpenOptions::default()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Scheme { .. }), "{refused}");
}
