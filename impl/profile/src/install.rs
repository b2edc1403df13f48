//! Installed copies of adapters, one directory for each adapter and version. A copy counts once everything in it is done.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::adapter::{Adapter, AdapterError};
use crate::files::{Files, FilesError};
use crate::run::resolved;

/// The file that says that a copy is done, and of what.
const DONE: &str = ".installed";
const LOG: &str = "install.log";

/// Where installed copies are.
#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
}

/// Why an adapter can't be installed, or is not.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Its description can't be used.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// Its files can't be had.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The cache can't be used.
    #[error("{}: {error}", path.display())]
    Cache {
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// One of its commands failed.
    #[error("{name}: `{command}` failed: {says}\nAll that it printed is in {}", log.display())]
    Command {
        /// The adapter.
        name: String,
        /// The command.
        command: String,
        /// The last that it printed.
        says: String,
        /// All of it.
        log: PathBuf,
    },
    /// It is not installed.
    #[error("{name} {version} is {state}; install it with `settled profile install {given}`", state = if *changed { "installed from other files than these" } else { "not installed" })]
    Missing {
        /// The adapter.
        name: String,
        /// The version.
        version: String,
        /// How it was named.
        given: String,
        /// Whether it was installed, and its files have changed since.
        changed: bool,
    },
}

/// An adapter's files and the version of the framework that is meant.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// How the user named it.
    pub given: String,
    /// Its files.
    pub files: Files,
    /// The version, if it is not the one that the adapter names.
    pub version: Option<String>,
}

impl Wanted {
    /// What `NAME`, `NAME@VERSION`, `DIR` or `DIR@VERSION` means: a directory if it is one, else a shipped adapter.
    ///
    /// # Errors
    /// [`InstallError`] if there is neither.
    pub fn named(given: &str) -> Result<Self, InstallError> {
        let (name, version) = match given.rsplit_once('@') {
            Some((name, version)) if !version.contains('/') && !name.is_empty() => (name, Some(version.to_owned())),
            _ => (given, None),
        };
        Ok(Self { given: given.to_owned(), files: Files::named(name)?, version })
    }

    /// Its description, with the version that is meant.
    ///
    /// # Errors
    /// [`InstallError`] if it can't be used.
    pub fn adapter(&self) -> Result<Adapter, InstallError> {
        let mut adapter = self.files.adapter()?;
        if let Some(version) = &self.version {
            adapter.version.clone_from(version);
        }
        Ok(adapter)
    }
}

impl Cache {
    /// The cache in this directory, which need not be there yet.
    #[must_use]
    pub fn at(directory: PathBuf) -> Self {
        Self { directory: std::path::absolute(&directory).unwrap_or(directory) }
    }

    fn place(&self, adapter: &Adapter) -> PathBuf {
        self.directory.join(format!("{}@{}", adapter.name, adapter.version.replace('/', "_")))
    }

    /// Whether it is installed, as it is now.
    ///
    /// # Errors
    /// [`InstallError`] if its description can't be used.
    pub fn has(&self, wanted: &Wanted) -> Result<bool, InstallError> {
        let place = self.place(&wanted.adapter()?);
        Ok(fs::read_to_string(place.join(DONE)).is_ok_and(|done| done == wanted.files.digest()))
    }

    /// The installed copy. One that needs no commands is made on the way.
    ///
    /// # Errors
    /// [`InstallError`] if there is none.
    pub fn installed(&self, wanted: &Wanted) -> Result<Adapter, InstallError> {
        let adapter = wanted.adapter()?;
        if self.has(wanted)? {
            return Ok(Adapter { directory: self.place(&adapter), ..adapter });
        }
        if adapter.install.is_empty() {
            return self.install(wanted, |_| {});
        }
        let changed = self.place(&adapter).join(DONE).exists();
        let given = wanted.given.clone();
        Err(InstallError::Missing { name: adapter.name, version: adapter.version, given, changed })
    }

    /// Installs it, unless it is there already. What is being done is told.
    ///
    /// # Errors
    /// [`InstallError`] if that is not possible.
    pub fn install(&self, wanted: &Wanted, tell: impl Fn(&str)) -> Result<Adapter, InstallError> {
        let adapter = wanted.adapter()?;
        let place = self.place(&adapter);
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| InstallError::Cache { path, error }
        };
        fs::create_dir_all(&self.directory).map_err(at(&self.directory))?;
        let lock_path = place.with_file_name(format!("{}@{}.lock", adapter.name, adapter.version.replace('/', "_")));
        let lock = File::create(&lock_path).map_err(at(&lock_path))?;
        lock.lock().map_err(at(&lock_path))?;
        if !self.has(wanted)? {
            if place.exists() {
                fs::remove_dir_all(&place).map_err(at(&place))?;
            }
            wanted.files.write(&place).map_err(at(&place))?;
            for command in &adapter.install {
                run(&adapter, &place, command, &tell)?;
            }
            fs::write(place.join(DONE), wanted.files.digest()).map_err(at(&place))?;
        }
        Ok(Adapter { directory: place, ..adapter })
    }
}

fn run(adapter: &Adapter, place: &Path, command: &[String], tell: impl Fn(&str)) -> Result<(), InstallError> {
    let words: Vec<String> = command.iter().map(|word| word.replace("{version}", &adapter.version)).collect();
    let Some((first, rest)) = words.split_first() else { return Ok(()) };
    let shown = words.join(" ");
    tell(&shown);
    let log = place.join(LOG);
    let failed = |says: String| InstallError::Command {
        name: adapter.name.clone(),
        command: shown.clone(),
        says,
        log: log.clone(),
    };
    let opened = File::options().create(true).append(true).open(&log);
    let file = opened.map_err(|error| InstallError::Cache { path: log.clone(), error })?;
    let both = file.try_clone().map_err(|error| InstallError::Cache { path: log.clone(), error })?;
    let status = Command::new(resolved(place, first))
        .args(rest)
        .current_dir(place)
        .env("PROFILE_VERSION", &adapter.version)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(both)
        .status()
        .map_err(|error| failed(format!("it can't be started: {error}")))?;
    if status.success() {
        return Ok(());
    }
    let text = fs::read(&log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join("\n  ");
    Err(failed(format!("{status}\n  {last}")))
}
