//! The gateway under test.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::running::{Ended, Running};
use crate::stage::Stage;
use crate::wait::until;

/// A gateway, running.
pub struct Gateway {
    /// Its process.
    pub running: Running,
    /// Its URL, without a path.
    pub url: String,
}

impl Stage {
    /// Starts a gateway in front of this URL, at this port; 0 is a free one. All gateways of a stage share its ledger and its
    /// configuration.
    #[track_caller]
    pub fn start_gateway(&self, upstream: &str, port: u16, words: &[&str]) -> Gateway {
        let listen = format!("127.0.0.1:{port}");
        let mut argv = self.settled(&["gateway", "--upstream", upstream, "--listen", &listen]);
        if !words.contains(&"--ledger") {
            argv.extend(["--ledger".into(), self.path("ledger").into()]);
        }
        if let Some(config) = &self.config {
            argv.extend(["--config".into(), config.into()]);
        }
        argv.extend(words.iter().map(std::ffi::OsString::from));
        let mut running = self.start(&argv);
        let url = until("the gateway listens", || {
            let said = running.stderr();
            assert!(!running.has_ended(), "the gateway ended: {said}");
            let at = said.find("http://127.0.0.1:")?;
            let (url, _) = said.get(at..)?.split_once(char::is_whitespace)?;
            Some(url.trim_end_matches('/').to_owned())
        });
        Gateway { running, url }
    }
}

impl Gateway {
    /// Its port.
    pub fn port(&self) -> u16 {
        crate::breaker::address_of(&self.url).0.port()
    }

    /// Tells it to end, and waits until it has.
    #[track_caller]
    pub fn stop(self) -> Ended {
        let pid = i32::try_from(self.running.pid()).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGTERM).expect("a running child can be told to end");
        self.running.wait()
    }

    /// Kills it with SIGKILL.
    #[track_caller]
    pub fn kill(self) {
        self.running.kill().expect("the gateway ran until it was killed");
    }
}
