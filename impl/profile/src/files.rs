//! An adapter's files: those in a directory, or those that are shipped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rust_embed::{Embed, EmbeddedFile};
use sha2::{Digest, Sha256};

use crate::adapter::{Adapter, AdapterError};

#[derive(Embed)]
#[folder = "adapters"]
#[exclude = "*/node_modules/*"]
#[exclude = "*/venv/*"]
#[exclude = "*/__pycache__/*"]
#[exclude = "*/.*"]
struct Shipped;

/// What installing makes, and what is no part of an adapter.
const NOT_ITS_OWN: &[&str] = &["node_modules", "venv", "__pycache__", "target"];

/// The files of one adapter, by their paths in it.
#[derive(Clone, Debug)]
pub struct Files {
    origin: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

/// Why an adapter's files can't be had.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// There are none of this name.
    #[error("there is no directory and no shipped adapter `{name}`; shipped are {}", shipped.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// Those that are shipped.
        shipped: Vec<String>,
    },
    /// The kit has no such file, or the adapter has one of that name itself.
    #[error("`kit` names `{name}`: {why}; the kit has {}", kit.join(", "))]
    Kit {
        /// What was named.
        name: String,
        /// What is wrong with it.
        why: &'static str,
        /// What the kit has.
        kit: Vec<String>,
    },
    /// The directory can't be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The names of the adapters that are shipped.
#[must_use]
pub fn shipped() -> Vec<String> {
    Shipped::iter().filter_map(|path| path.strip_suffix("/adapter.toml").map(str::to_owned)).collect()
}

impl Files {
    /// Those of a directory, if it is one, or of a shipped adapter.
    ///
    /// # Errors
    /// [`FilesError`] if there are none.
    pub fn named(name: &str) -> Result<Self, FilesError> {
        let directory = Path::new(name);
        let shipped = shipped();
        let is_shipped = shipped.iter().any(|shipped| shipped == name);
        // A name without a slash is that of a shipped adapter, also where there happens to be a directory of that name.
        let files = if is_shipped && !directory.join("adapter.toml").exists() {
            Self::shipped(name)
        } else if directory.is_dir() {
            Self::read(directory).map_err(|error| FilesError::Unreadable { path: directory.to_owned(), error })?
        } else {
            return Err(FilesError::Unknown { name: name.to_owned(), shipped });
        };
        files.with_kit()
    }

    /// Puts the files of the kit that it names beside its own.
    fn with_kit(mut self) -> Result<Self, FilesError> {
        // What is wrong with its description is said where that is used.
        let named = self.adapter().map(|adapter| adapter.kit).unwrap_or_default();
        let kit = Self::shipped("kit").files;
        for name in named {
            let refused = |why| FilesError::Kit {
                name: name.clone(),
                why,
                kit: kit.iter().map(|(name, _)| name.clone()).collect(),
            };
            if self.files.iter().any(|(own, _)| *own == name) {
                return Err(refused("the adapter has a file of that name itself"));
            }
            let found = kit.iter().find(|(own, _)| *own == name).cloned();
            self.files.push(found.ok_or_else(|| refused("there is no such file"))?);
        }
        Ok(self.sorted())
    }

    fn shipped(name: &str) -> Self {
        let prefix = format!("{name}/");
        let own = |path: &str| path.strip_prefix(&prefix).map(str::to_owned);
        let files = Shipped::iter().filter_map(|path| {
            let EmbeddedFile { data, .. } = Shipped::get(&path)?;
            Some((own(&path)?, data.into_owned()))
        });
        Self { origin: PathBuf::from(name), files: files.collect() }.sorted()
    }

    fn read(directory: &Path) -> io::Result<Self> {
        let mut files = Vec::new();
        collect(directory, "", &mut files)?;
        Ok(Self { origin: directory.to_owned(), files }.sorted())
    }

    fn sorted(mut self) -> Self {
        self.files.sort();
        self
    }

    /// Its description.
    ///
    /// # Errors
    /// [`AdapterError`] if there is none, or it can't be used.
    pub fn adapter(&self) -> Result<Adapter, AdapterError> {
        let path = self.origin.join("adapter.toml");
        let found = self.files.iter().find(|(name, _)| name == "adapter.toml");
        let Some((_, bytes)) = found else {
            return Err(AdapterError::Unreadable { path, error: io::ErrorKind::NotFound.into() });
        };
        let adapter = Adapter::parse(&path, &String::from_utf8_lossy(bytes))?;
        let directory = self.origin.canonicalize().unwrap_or_else(|_| self.origin.clone());
        // What is installed is kept by that name: two directories must not share one by mistake.
        match directory.file_name().and_then(|name| name.to_str()) {
            Some(name) if name != adapter.name => {
                let error = format!(
                    "`name` is `{}`, but the directory is called `{name}`: give both the same name",
                    adapter.name
                );
                Err(AdapterError::Invalid { path, error })
            }
            _ => Ok(adapter),
        }
    }

    /// A digest of all of them.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        for (path, bytes) in &self.files {
            digest.update((path.len() as u64).to_be_bytes());
            digest.update(path);
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Writes them into a directory.
    ///
    /// # Errors
    /// If it can't be written to.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        for (path, bytes) in &self.files {
            let path = directory.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, bytes)?;
            if bytes.starts_with(b"#!") || bytes.starts_with(b"\x7fELF") {
                use std::os::unix::fs::PermissionsExt;
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(())
    }
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') || NOT_ITS_OWN.contains(&name.as_str()) {
            continue;
        }
        let (path, own) = (entry.path(), format!("{prefix}{name}"));
        match path.is_dir() {
            true => collect(&path, &format!("{own}/"), files)?,
            false => files.push((own, fs::read(&path)?)),
        }
    }
    Ok(())
}
