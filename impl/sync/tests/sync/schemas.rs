//! Stores that can't be used as they are.

use settled_protocol::merge::{Change, View};
use settled_sync::Schema;
use settled_sync::store::{StoreError, StoreOptions};

use crate::common::{NOW, Place, SCHEMA, check, field, name, operation, options, upload};

fn with(text: &str) -> StoreOptions {
    StoreOptions { schema: Schema::parse(text).unwrap(), ..options() }
}

/// A later schema is taken over, also by a server that is running; an earlier one is refused.
pub async fn later(place: &Place) {
    let old = place.open().await;
    let first = operation("a", 0, NOW, "task/1", field("title", Change::Set("x".into())));
    old.apply(upload("a", NOW, &[first]), NOW).await.unwrap();
    let text = SCHEMA.replace("version = 3", "version = 4").replace("title =", "due = \"latest\"\ntitle =");
    let new = place.open_with(with(&text)).await.unwrap();
    let View::Map(fields) = new.target(&name("task/1")).await.unwrap().unwrap().view else { panic!("no map") };
    assert_eq!(fields.len(), 7, "{fields:?}");
    // The one that is running does not know of it yet.
    let second = operation("a", 1, NOW, "task/1", field("due", Change::Set(5.into())));
    let uploaded = old.apply(upload("a", NOW, &[second]), NOW).await.unwrap();
    assert_eq!((uploaded.head, old.schema().version), (2, 4), "{uploaded:?}");
    for (text, says) in [
        (SCHEMA.to_owned(), "its version is 3"),
        (text.replace("version = 4", "version = 5").replace("seen = \"union\"\n", ""), "`seen` is gone"),
        (text.replace("due = \"latest\"", "due = \"max\"").replace("version = 4", "version = 5"), "was `latest`"),
    ] {
        let error = place.open_with(with(&text)).await.err().unwrap();
        assert!(matches!(error, StoreError::Schema(_)) && error.to_string().contains(says), "{error}");
    }
    assert_eq!(new.operations(0, 10).await.unwrap().operations.len(), 2);
}

/// Nothing after the head; pages end at what was asked for.
pub async fn pages(place: &Place) {
    let store = place.open().await;
    let made: Vec<_> = ["seen/b", "seen/a", "votes", "seen", "task/\u{1F980}", "task/z"]
        .iter()
        .zip(0..)
        .map(|(target, number)| {
            let change = match target.split('/').next().unwrap() {
                "votes" => Change::Count(1),
                "seen" => Change::Add(1.into()),
                _ => field("count", Change::Count(1)),
            };
            operation("a", number, NOW, target, change)
        })
        .collect();
    store.apply(upload("a", NOW, &made), NOW).await.unwrap();
    check(&*store).await;
    let names = async |prefix: &str, after: &str, limit| {
        let page = store.targets(prefix, after, limit).await.unwrap();
        (page.targets.iter().map(|target| target.target.as_str().to_owned()).collect::<Vec<_>>().join(" "), page.more)
    };
    assert_eq!(names("", "", 10).await, ("seen seen/a seen/b task/z task/\u{1F980} votes".to_owned(), false));
    assert_eq!(names("seen/", "", 10).await, ("seen/a seen/b".to_owned(), false));
    assert_eq!(names("seen/", "", 2).await, ("seen/a seen/b".to_owned(), false));
    assert_eq!(names("seen", "", 2).await, ("seen seen/a".to_owned(), true));
    assert_eq!(names("seen", "seen/a", 2).await, ("seen/b".to_owned(), false));
    assert_eq!(names("x", "", 2).await, (String::new(), false));
    let ahead = store.operations(7, 10).await.unwrap_err();
    assert!(matches!(ahead, StoreError::Ahead { after: 7, head: 6 }), "{ahead}");
    assert!(store.operations(6, 10).await.unwrap().operations.is_empty());
    // A page is no more than a few MiB, whatever is asked for.
    let text = "x".repeat(60_000);
    for part in 0..2 {
        let large = (0..50).map(|n| {
            let target = format!("task/large-{part}-{n}");
            operation("b", part * 50 + n, NOW, &target, field("title", Change::Set(text.as_str().into())))
        });
        store.apply(upload("b", NOW, &large.collect::<Vec<_>>()), NOW).await.unwrap();
    }
    let pulled = store.operations(0, 1_000).await.unwrap();
    assert!((60..80).contains(&pulled.operations.len()), "{}", pulled.operations.len());
    let page = store.targets("", "", 1_000).await.unwrap();
    assert!((60..80).contains(&page.targets.len()) && page.more, "{}", page.targets.len());
    assert_eq!(check(&*store).await.len(), 106);
}

#[tokio::test]
async fn sqlite() {
    later(&Place::sqlite()).await;
    pages(&Place::sqlite()).await;
}

#[tokio::test]
async fn files_that_are_no_stores() {
    let directory = tempfile::tempdir().unwrap();
    let open = async |file: &str| {
        let url = format!("sqlite:{}", directory.path().join(file).display());
        settled_sync::store::open(&url, options())
            .await
            .err()
            .unwrap_or_else(|| panic!("{file} was opened"))
            .to_string()
    };
    std::fs::write(directory.path().join("text"), "no database, but a text of some length".repeat(100)).unwrap();
    assert!(open("text").await.contains("something else"), "{}", open("text").await);
    let foreign = rusqlite::Connection::open(directory.path().join("foreign")).unwrap();
    foreign.execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(open("foreign").await.contains("something else"));
    assert!(open("none/there").await.contains("can't be opened"));
    let place = Place::sqlite();
    drop(place.open().await);
    let file = place.url.strip_prefix("sqlite:").unwrap();
    let newer = rusqlite::Connection::open(file).unwrap();
    newer.pragma_update(None, "user_version", 2).unwrap();
    let error = place.open_with(options()).await.err().unwrap().to_string();
    assert!(error.contains("newer version of settled"), "{error}");
    for url in ["mysql://x", "sync.db", "postgres:x"] {
        assert!(matches!(settled_sync::store::open(url, options()).await, Err(StoreError::Unusable(_))), "{url}");
    }
}
