//! The command lines of the program under test.

use std::ffi::OsString;

use crate::binary::settled;
use crate::stage::Stage;

impl Stage {
    /// The command of a proxy in front of a server's command. All proxies of a stage share its ledger.
    pub fn proxy(&self, server: &[OsString]) -> Vec<OsString> {
        let mut argv = self.settled(&["mcp", "--ledger"]);
        argv.push(self.path("ledger").into());
        if let Some(config) = &self.config {
            argv.extend(["--config".into(), config.into()]);
        }
        argv.push("--".into());
        argv.extend_from_slice(server);
        argv
    }

    /// A command of `settled`.
    pub fn settled(&self, words: &[&str]) -> Vec<OsString> {
        let mut argv = vec![settled().into()];
        argv.extend(words.iter().map(OsString::from));
        argv
    }
}
