//! Who waits for the change of a key, and the connection on which the server tells of changes.
//!
//! It is made when somebody waits for the first time. While there is none, those who wait look again more often.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use redis::Client;
use redis::aio::{PubSub, PubSubSink};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// How long to wait for the server on this connection, whether it connects, subscribes or is asked if it is there.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often to ask whether it is there.
const ASK: Duration = Duration::from_secs(10);
/// The longest pause before connecting again.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Those who wait, by channel.
#[derive(Debug)]
pub(crate) struct Watch {
    channels: Mutex<HashMap<String, Channel>>,
    wanted: mpsc::UnboundedSender<Wanted>,
}

#[derive(Debug, Default)]
struct Channel {
    changed: Arc<Notify>,
    waiters: usize,
    /// The server has said that it will tell.
    subscribed: bool,
}

enum Wanted {
    /// Tell when it is so.
    Subscribe(String, oneshot::Sender<()>),
    Unsubscribe(String),
}

/// Waits on a channel, until it is dropped.
#[derive(Debug)]
pub(crate) struct Waiter {
    watch: Arc<Watch>,
    channel: String,
    pub(crate) changed: Arc<Notify>,
}

impl Watch {
    /// Starts the task that listens. It ends with the last one who holds the watch.
    pub(crate) fn start(client: Client) -> Arc<Watch> {
        let (wanted, wants) = mpsc::unbounded_channel();
        let watch = Arc::new(Watch { channels: Mutex::default(), wanted });
        tokio::spawn(listen(client, Arc::downgrade(&watch), wants));
        watch
    }

    /// Waits on a channel, and says whether the server will tell of it.
    pub(crate) async fn on(self: &Arc<Watch>, channel: String) -> (Waiter, bool) {
        let (waiter, tells) = self.enter(channel);
        let Some(tells) = tells else {
            return (waiter, true);
        };
        let told = timeout(PATIENCE, tells).await;
        (waiter, matches!(told, Ok(Ok(()))))
    }

    /// Waits on a channel; what tells when the server will tell of it, unless it does already.
    fn enter(self: &Arc<Watch>, channel: String) -> (Waiter, Option<oneshot::Receiver<()>>) {
        let mut channels = self.channels();
        let entry = channels.entry(channel.clone()).or_default();
        entry.waiters += 1;
        let waiter = Waiter { watch: self.clone(), channel: channel.clone(), changed: entry.changed.clone() };
        if entry.subscribed {
            return (waiter, None);
        }
        let (told, tells) = oneshot::channel();
        // Under the lock, so that it comes after the end of an earlier subscription.
        let _ = self.wanted.send(Wanted::Subscribe(channel, told));
        (waiter, Some(tells))
    }

    /// Whether a subscription that was to end is wanted again. Its new waiters may have been told already that it is there.
    fn is_wanted(&self, name: &str) -> bool {
        self.channels().contains_key(name)
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<String, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<String> {
        self.channels().keys().cloned().collect()
    }

    fn subscribed(&self, names: &[String]) {
        let mut channels = self.channels();
        for name in names {
            if let Some(channel) = channels.get_mut(name) {
                channel.subscribed = true;
            }
        }
    }

    /// The server tells of nothing any more: whoever waits must look for itself.
    fn silent(&self) {
        for channel in self.channels().values_mut() {
            channel.subscribed = false;
            channel.changed.notify_waiters();
        }
    }

    fn tell(&self, name: &str) {
        if let Some(channel) = self.channels().get(name) {
            channel.changed.notify_waiters();
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut channels = self.watch.channels();
        let Some(entry) = channels.get_mut(&self.channel) else { return };
        entry.waiters = entry.waiters.saturating_sub(1);
        if entry.waiters == 0 {
            channels.remove(&self.channel);
            let _ = self.watch.wanted.send(Wanted::Unsubscribe(std::mem::take(&mut self.channel)));
        }
    }
}

async fn listen(client: Client, watch: Weak<Watch>, mut wants: mpsc::UnboundedReceiver<Wanted>) {
    let mut pause = Duration::ZERO;
    loop {
        // Nobody waits: no connection is needed.
        if watch.upgrade().is_none_or(|watch| watch.names().is_empty()) {
            match wants.recv().await {
                // Who asks is served by the connection that is made now.
                Some(_) => {}
                None => return,
            }
        }
        if let Ok(Ok(connection)) = timeout(PATIENCE, client.get_async_pubsub()).await {
            if serve(connection, &watch, &mut wants).await {
                return;
            }
            pause = Duration::ZERO;
        }
        match watch.upgrade() {
            Some(watch) => watch.silent(),
            None => return,
        }
        pause = (pause * 2).clamp(Duration::from_millis(50), LONGEST_PAUSE);
        sleep(pause.mul_f64(fastrand::f64())).await;
        // Whoever has asked meanwhile is told that there is no connection: the senders of their answers are dropped.
        while wants.try_recv().is_ok() {}
    }
}

/// Listens on one connection until it is lost, or (then: `true`) nobody holds the watch.
async fn serve(connection: PubSub, watch: &Weak<Watch>, wants: &mut mpsc::UnboundedReceiver<Wanted>) -> bool {
    let (mut sink, mut messages) = connection.split();
    let Some(names) = watch.upgrade().map(|watch| watch.names()) else { return true };
    if !names.is_empty() && !subscribe(&mut sink, &names).await {
        return false;
    }
    let held = |then: &dyn Fn(&Watch)| watch.upgrade().map(|watch| then(&watch)).is_some();
    // What has changed before this connection was there was not told.
    if !held(&|watch| {
        watch.silent();
        watch.subscribed(&names);
    }) {
        return true;
    }
    loop {
        tokio::select! {
            wanted = wants.recv() => match wanted {
                None => return true,
                Some(Wanted::Subscribe(name, told)) => {
                    let names = [name];
                    if !subscribe(&mut sink, &names).await {
                        return false;
                    }
                    if !held(&|watch| watch.subscribed(&names)) {
                        return true;
                    }
                    let _ = told.send(());
                }
                Some(Wanted::Unsubscribe(name)) => {
                    let Some(is_wanted) = watch.upgrade().map(|watch| watch.is_wanted(&name)) else { return true };
                    if !is_wanted && !matches!(timeout(PATIENCE, sink.unsubscribe(name)).await, Ok(Ok(()))) {
                        return false;
                    }
                }
            },
            message = messages.next() => match message {
                Some(message) => {
                    if !held(&|watch| watch.tell(message.get_channel_name())) {
                        return true;
                    }
                }
                None => return false,
            },
            () = sleep(ASK) => {
                if !matches!(timeout(PATIENCE, sink.ping::<redis::Value>()).await, Ok(Ok(_))) {
                    return false;
                }
            }
        }
    }
}

async fn subscribe(sink: &mut PubSubSink, names: &[String]) -> bool {
    matches!(timeout(PATIENCE, sink.subscribe(names)).await, Ok(Ok(())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What the listening task does with its queue, with a set in the place of the server.
    fn listen_once(watch: &Watch, wants: &mut mpsc::UnboundedReceiver<Wanted>, server: &mut BTreeSet<String>) {
        match wants.try_recv() {
            Ok(Wanted::Subscribe(name, told)) => {
                server.insert(name.clone());
                watch.subscribed(&[name]);
                let _ = told.send(());
            }
            Ok(Wanted::Unsubscribe(name)) if !watch.is_wanted(&name) => drop(server.remove(&name)),
            _ => {}
        }
    }

    #[test]
    fn who_is_told_that_the_server_tells_is_told_so_truly_whoever_comes_and_goes() {
        for seed in 0..2_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (wanted, mut wants) = mpsc::unbounded_channel();
            let watch = Arc::new(Watch { channels: Mutex::default(), wanted });
            let (mut server, mut waiters) = (BTreeSet::new(), Vec::new());
            for _ in 0..40 {
                match random.u8(..3) {
                    0 => {
                        let (waiter, tells) = watch.enter("a".to_owned());
                        waiters.push((waiter, tells));
                    }
                    1 if !waiters.is_empty() => drop(waiters.swap_remove(random.usize(..waiters.len()))),
                    _ => listen_once(&watch, &mut wants, &mut server),
                }
                for (_, tells) in &mut waiters {
                    let told = tells.as_mut().is_none_or(|tells| !tells.is_terminated() && tells.try_recv().is_ok());
                    if told {
                        *tells = None;
                        assert!(server.contains("a"), "of seed {seed}: a change would not be told");
                    }
                }
            }
            waiters.clear();
            while !wants.is_empty() {
                listen_once(&watch, &mut wants, &mut server);
            }
            assert!(server.is_empty() && watch.names().is_empty(), "of seed {seed}: something is left behind");
        }
    }
}
