//! The proxy is told to end, and told again. A process of its own, because the signal reaches every proxy in it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "mcp/support/mod.rs"]
mod support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{World, mark};

#[tokio::test]
async fn calls_under_way_are_finished_first() {
    let world = World::new();
    let mut client = world.open("").await;
    client.call("1", "charge", r#"{"sleep":0.5}"#).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    kill(Pid::this(), Signal::SIGTERM).unwrap();
    let answer = client.answer().await;
    assert_eq!(mark(&answer)["status"], "done");
    client.wait().await.unwrap();
    assert_eq!(world.log().last().unwrap(), "end of input");
    assert_eq!(world.effects().len(), 1);

    // A second signal does not wait for a call that takes for ever.
    let world = World::new();
    let mut client = world.open("").await;
    client.call("1", "charge", r#"{"sleep":60}"#).await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    kill(Pid::this(), Signal::SIGTERM).unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    kill(Pid::this(), Signal::SIGINT).unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(30), client.wait()).await.unwrap().unwrap();
}
