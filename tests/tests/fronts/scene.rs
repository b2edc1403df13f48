//! The processes around a client: servers and proxies over HTTP, kept running on an address that stays.

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, Scope};
use std::time::Duration;

use settled_tests::{Breaker, Running, Stage, Target, address_of, until};

use crate::cell::{Cell, Direct, Link, server};

/// Where a process says its URL.
#[derive(Clone, Copy)]
enum Says {
    FirstLine,
    StandardError,
}

/// One cell's processes, apart from the client.
pub struct Scene<'a> {
    pub stage: &'a Stage,
    /// Between the client and what it talks to, if that is over HTTP.
    pub front: &'a Breaker,
    /// Between the proxy and the server, if that is over HTTP.
    pub back: &'a Breaker,
    /// Nothing is started again any more.
    pub over: &'a AtomicBool,
}

impl<'a> Scene<'a> {
    /// What a client without a proxy talks to.
    pub fn direct<'s>(&'s self, scope: &'s Scope<'s, 'a>, cell: &Direct) -> Target
    where
        'a: 's,
    {
        let command = server(cell.client, cell.revision).command();
        match cell.link {
            Link::Stdio => Target::Command(command),
            Link::Http => Target::Url(self.keep(scope, over_http(command), Says::FirstLine, self.front)),
        }
    }

    /// What a client of the proxy talks to.
    pub fn guarded<'s>(&'s self, scope: &'s Scope<'s, 'a>, cell: &Cell) -> Target
    where
        'a: 's,
    {
        let command = server(cell.client, cell.revision).command();
        let mut proxy = self.stage.settled(&["mcp", "--ledger"]);
        proxy.push(self.stage.path("ledger").into());
        if cell.way.front == Link::Http {
            proxy.extend(["--listen".into(), "127.0.0.1:0".into()]);
        }
        match cell.way.back {
            Link::Stdio => {
                proxy.push("--".into());
                proxy.extend(command);
            }
            Link::Http => {
                let url = self.keep(scope, over_http(command), Says::FirstLine, self.back);
                proxy.extend(["--upstream".into(), url.into()]);
            }
        }
        match cell.way.front {
            Link::Stdio => Target::Command(proxy),
            Link::Http => Target::Url(self.keep(scope, proxy, Says::StandardError, self.front)),
        }
    }

    /// Starts a command, and again whenever it has ended. The URL of the breaker in front of it.
    fn keep<'s>(&'s self, scope: &'s Scope<'s, 'a>, argv: Vec<OsString>, says: Says, breaker: &'a Breaker) -> String
    where
        'a: 's,
    {
        let (said, url) = channel();
        let (stage, over) = (self.stage, self.over);
        scope.spawn(move || keep_running(stage, over, &argv, says, breaker, &said));
        let url: String = url.recv().expect("it says its URL");
        breaker.in_front_of(&url)
    }
}

fn over_http(mut command: Vec<OsString>) -> Vec<OsString> {
    command.push("--http".into());
    command
}

fn keep_running(
    stage: &Stage,
    over: &AtomicBool,
    argv: &[OsString],
    says: Says,
    breaker: &Breaker,
    said: &Sender<String>,
) {
    while !over.load(Ordering::SeqCst) {
        let mut running = stage.start(argv);
        let url = url_of(&mut running, says);
        breaker.lead_to(address_of(&url).0);
        let _ = said.send(url);
        while !running.has_ended() {
            if over.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn url_of(running: &mut Running, says: Says) -> String {
    match says {
        Says::FirstLine => running.next_line().unwrap_or_else(|| panic!("no URL: {}", running.stderr())),
        Says::StandardError => until("the proxy says its URL", || {
            let text = running.stderr();
            assert!(!running.has_ended(), "the proxy ended: {text}");
            let url = text.get(text.find("http://127.0.0.1:")?..)?;
            let end = url.find(char::is_whitespace)?;
            url.get(..end).map(|url| url.trim_end_matches(['.', ',', ';']).to_owned())
        }),
    }
}
