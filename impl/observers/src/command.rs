//! Asking by running a command.

use std::io;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command as Process;

use crate::error::{AskError, Unusable};
use crate::given::Given;
use crate::http::json_or_text;
use crate::template::{Template, Where};
use crate::verdict::{Condition, Evidence};

/// How much of its output is read.
const OUTPUT: usize = 1 << 20;

/// A command, as declared: a program and its arguments. No shell sees them.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    program: String,
    arguments: Vec<Template>,
}

impl Command {
    /// This program with these arguments, each a template, for an observation or a seal.
    ///
    /// # Errors
    /// [`Unusable`], with what is allowed instead.
    pub fn parse(words: &[String], place: Where) -> Result<Command, Unusable> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Unusable("is empty: write the program and its arguments".to_owned()));
        };
        // Which program runs must not depend on a call.
        let as_program = Template::parse(program, place).map(|template| template.head().1);
        if program.is_empty() || as_program != Ok(false) {
            return Err(Unusable(format!(
                "must begin with the name of a program, without placeholders: not `{program}`"
            )));
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(Unusable("has a NUL character in it".to_owned()));
        }
        let arguments = arguments
            .iter()
            .map(|word| Template::parse(word, place))
            .collect::<Result<_, _>>()
            .map_err(|error| Unusable(error.to_string()))?;
        Ok(Command { program: program.clone(), arguments })
    }

    pub(crate) fn uses(&self, name: &str) -> bool {
        self.arguments.iter().any(|word| word.uses(name))
    }

    /// What holds if nothing is declared: exit status 0 is "applied".
    pub fn applied() -> Vec<Condition> {
        vec![Condition::exit(0, false)]
    }

    /// What holds if nothing is declared: exit status 1 without a word on the standard error stream is "not applied". Many
    /// programs also end with 1 when they fail, but then they say so.
    pub fn not_applied() -> Vec<Condition> {
        vec![Condition::exit(1, true)]
    }

    /// Runs it. When this is dropped before its end, the command and whatever it has started are killed.
    pub(crate) async fn ask(&self, given: &Given<'_>) -> Result<Evidence, AskError> {
        let arguments = self.filled(given)?;
        let mut command = Process::new(&self.program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let failed = |error: io::Error| AskError::Failed(format!("the command `{}`: {error}", self.program));
        let mut child = command.spawn().map_err(failed)?;
        let _group = child.id().and_then(|id| i32::try_from(id).ok()).map(|id| KillOnDrop(Pid::from_raw(id)));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = tokio::try_join!(read(stdout), read(stderr)).map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        let Some(exit) = status.code() else {
            return Err(AskError::Failed(format!("the command `{}` was ended by a signal ({status})", self.program)));
        };
        let stdout = stdout.ok_or(AskError::TooLong("1 MiB"))?;
        let clean = stderr.as_ref().is_some_and(|words| words.iter().all(u8::is_ascii_whitespace));
        if !clean {
            let words = String::from_utf8_lossy(stderr.as_deref().unwrap_or_default()).into_owned();
            tracing::debug!(program = self.program, words, "an observer's command wrote to its standard error stream");
        }
        Ok(Evidence { exit: Some(exit), clean, body: Some(json_or_text(&stdout)), ..Evidence::default() })
    }

    fn filled(&self, given: &Given<'_>) -> Result<Vec<String>, AskError> {
        let mut words: Vec<String> = Vec::with_capacity(self.arguments.len());
        for template in &self.arguments {
            let word = template.text(given)?;
            let chosen_by_the_call = template.head() == ("", true);
            if chosen_by_the_call && word.starts_with('-') && !words.iter().any(|word| word == "--") {
                // `--help` succeeds, whatever happened to the order of that name.
                return Err(AskError::Unfit(
                    "a value begins with `-`, so the command might take it for an option: put `\"--\"` before it, or \
                     write `\"--order={order}\"`"
                        .to_owned(),
                ));
            }
            if word.contains('\0') {
                return Err(AskError::Unfit("a value has a NUL character in it".to_owned()));
            }
            words.push(word);
        }
        Ok(words)
    }
}

/// All of a stream; `None` if it is too long.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Option<Vec<u8>>> {
    let Some(mut stream) = stream else { return Ok(Some(Vec::new())) };
    let mut all = Vec::new();
    let mut long = false;
    let mut buffer = [0; 8192];
    loop {
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok((!long).then_some(all));
        }
        long |= all.len() + count > OUTPUT;
        if !long {
            all.extend_from_slice(buffer.get(..count).unwrap_or_default());
        }
    }
}

/// The command's process group, killed when nobody waits for it any more.
struct KillOnDrop(Pid);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}
