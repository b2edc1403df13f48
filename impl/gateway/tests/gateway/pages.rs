//! The gateway's own pages.

use crate::support::*;

#[tokio::test]
async fn whether_it_lives_and_is_ready() {
    let (server, gateway) = both("").await;
    for page in ["healthz", "readyz"] {
        assert_eq!(get(&gateway, &format!("/.settled/{page}"), "").await.status, 200);
        assert_eq!(post(&gateway, &format!("/.settled/{page}"), "").await.status, 405);
    }
    assert_eq!(get(&gateway, "/.settled/other", "").await.status, 404);
    assert_eq!(server.heads.lock().unwrap().len(), 0, "its own pages are not the upstream's");
}

#[tokio::test]
async fn the_same_key_on_two_routes() {
    let text = "[[routes]]\npath = \"/a\"\n[[routes]]\npath = \"/b\"\nname = \"second\"";
    let (server, gateway) = both(text).await;
    post(&gateway, "/a", "\"k\"").await;
    assert_eq!(get(&gateway, "/.settled/operations/k", "").await.json()["route"], "POST /a");
    assert!(!post(&gateway, "/b", "\"k\"").await.is_replayed(), "keys are those of a route");
    assert_eq!((server.effects("/a"), server.effects("/b")), (1, 1));
    let both = get(&gateway, "/.settled/operations/k", "").await;
    assert_eq!(both.status, 300);
    let addresses = both.json()["operations"].as_array().unwrap().clone();
    assert_eq!(addresses, ["/.settled/operations/k?route=POST%20%2Fa", "/.settled/operations/k?route=second"]);
    let one = get(&gateway, addresses[1].as_str().unwrap(), "").await;
    assert_eq!((one.status, &one.json()["route"]), (200, &"second".into()));
    assert_eq!(get(&gateway, "/.settled/operations/k?route=none", "").await.status, 404);
    assert_eq!(post(&gateway, "/.settled/operations/k", "").await.status, 405);
}
