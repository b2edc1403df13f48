//! The copy of the tree in which mutants are made, and where its build goes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::MutantError;

/// The root of the tree that this was built from.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Where things are.
#[derive(Clone, Debug)]
pub struct Place {
    /// The tree that is copied.
    pub root: PathBuf,
    /// Its own build.
    pub built: PathBuf,
    /// The copy.
    pub tree: PathBuf,
    /// The copy's build.
    pub target: PathBuf,
    /// The copy's build for loom.
    pub loom: PathBuf,
    /// The output of all commands.
    pub logs: PathBuf,
}

impl Place {
    /// Below the target directory (`CARGO_TARGET_DIR`, or `target` in the tree).
    pub fn new(root: PathBuf) -> Place {
        let built = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let built = std::path::absolute(&built).unwrap_or(built);
        let own = built.join("mutants");
        Place {
            root,
            tree: own.join("tree"),
            target: own.join("target"),
            loom: own.join("loom"),
            logs: own.join("logs"),
            built,
        }
    }

    /// Takes the copy for this run, until what is returned is dropped.
    ///
    /// # Errors
    /// [`MutantError::Taken`] if another run is at work in it.
    pub fn take(&self) -> Result<fs::File, MutantError> {
        fs::create_dir_all(&self.logs).map_err(MutantError::io("make", &self.logs))?;
        let path = self.logs.join("lock");
        let file = fs::File::create(&path).map_err(MutantError::io("write", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(MutantError::Taken(self.tree.clone())),
            Err(fs::TryLockError::Error(error)) => Err(MutantError::io("lock", &path)(error)),
        }
    }

    /// Makes the copy equal to the tree, and begins its builds.
    ///
    /// # Errors
    /// If git can't list the files, or one of them can't be copied.
    pub fn prepare(&self) -> Result<(), MutantError> {
        for directory in [&self.tree, &self.logs] {
            fs::create_dir_all(directory).map_err(MutantError::io("make", directory))?;
        }
        self.restore()?;
        self.synchronise()?;
        // What the tests have installed for themselves.
        let (installed, here) = (self.root.join("target/clients"), self.tree.join("target/clients"));
        if installed.exists() && !here.exists() {
            make_parent(&here)?;
            std::os::unix::fs::symlink(&installed, &here).map_err(MutantError::io("link", &here))?;
        }
        self.seed()
    }

    /// Changes a file of the copy, and notes how it was.
    pub(crate) fn change(&self, file: &Path, text: &str) -> Result<(), MutantError> {
        let (name, before) = (self.note("name"), self.note("text"));
        fs::copy(file, &before).map_err(MutantError::io("copy", file))?;
        fs::write(&name, file.to_string_lossy().as_bytes()).map_err(MutantError::io("write", &name))?;
        fs::write(file, text).map_err(MutantError::io("write", file))
    }

    /// Undoes the last change, also if it was made by a run that was killed.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn restore(&self) -> Result<(), MutantError> {
        let (name, before) = (self.note("name"), self.note("text"));
        if let (Ok(file), Ok(text)) = (fs::read_to_string(&name), fs::read(&before)) {
            let file = PathBuf::from(file);
            fs::write(&file, text).map_err(MutantError::io("write", &file))?;
            fs::remove_file(&name).map_err(MutantError::io("remove", &name))?;
        }
        Ok(())
    }

    fn note(&self, of: &str) -> PathBuf {
        self.logs.join(format!("changed.{of}"))
    }

    /// Makes the copy equal to the tree. Only files that differ are written, so that only they are built anew.
    fn synchronise(&self) -> Result<(), MutantError> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&self.root)
            .output()
            .map_err(|error| MutantError::Git(error.to_string()))?;
        if !listed.status.success() {
            return Err(MutantError::Git(String::from_utf8_lossy(&listed.stderr).trim().to_owned()));
        }
        let listed = String::from_utf8_lossy(&listed.stdout);
        let mut kept = BTreeSet::new();
        for file in listed.split('\0').filter(|file| !file.is_empty()) {
            let (from, to) = (self.root.join(file), self.tree.join(file));
            // One that has been removed is still in git's index.
            if !from.is_file() {
                continue;
            }
            let bytes = fs::read(&from).map_err(MutantError::io("read", &from))?;
            if fs::read(&to).ok().as_ref() != Some(&bytes) {
                make_parent(&to)?;
                // With its permissions.
                fs::copy(&from, &to).map_err(MutantError::io("copy", &from))?;
                touch(&to)?;
            }
            kept.insert(to);
        }
        remove_others(&self.tree, &kept)
    }

    /// Begins the copy's builds with what the tree's own build has of other people's code, which no mutant changes.
    fn seed(&self) -> Result<(), MutantError> {
        seed(&self.built.join("debug"), &self.target.join("debug"))?;
        seed(&self.built.join("loom/release"), &self.loom.join("release"))
    }
}

fn make_parent(path: &Path) -> Result<(), MutantError> {
    path.parent().map_or(Ok(()), |parent| fs::create_dir_all(parent).map_err(MutantError::io("make", parent)))
}

/// `fs::copy` keeps no times, but some file systems clone the file with them.
fn touch(path: &Path) -> Result<(), MutantError> {
    let file = fs::File::options().append(true).open(path).map_err(MutantError::io("open", path))?;
    file.set_modified(std::time::SystemTime::now()).map_err(MutantError::io("touch", path))
}

/// Removes files that the tree does not have: of an earlier state of it, or left by a test.
fn remove_others(directory: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), MutantError> {
    for entry in fs::read_dir(directory).map_err(MutantError::io("read", directory))? {
        let entry = entry.map_err(MutantError::io("read", directory))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(MutantError::io("examine", directory))?);
        if kind.is_dir() {
            if entry.file_name() != "target" {
                remove_others(&path, kept)?;
            }
        } else if !kept.contains(&path) {
            fs::remove_file(&path).map_err(MutantError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Libraries are linked, as nobody writes into them; all else is copied.
fn seed(from: &Path, to: &Path) -> Result<(), MutantError> {
    if to.exists() || !from.is_dir() {
        return Ok(());
    }
    for part in ["build", ".fingerprint", "deps"] {
        copy(&from.join(part), &to.join(part))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), MutantError> {
    let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
    fs::create_dir_all(to).map_err(MutantError::io("make", to))?;
    for entry in entries {
        let entry = entry.map_err(MutantError::io("read", from))?;
        let (path, name) = (entry.path(), entry.file_name());
        let plain = name.to_string_lossy();
        let name_to = to.join(&name);
        if plain.starts_with("settled") || plain.starts_with("libsettled") {
            continue;
        }
        if path.is_dir() {
            copy(&path, &name_to)?;
            continue;
        }
        let is_library = matches!(path.extension().and_then(|it| it.to_str()), Some("rlib" | "rmeta" | "so"));
        if is_library && fs::hard_link(&path, &name_to).is_ok() {
            continue;
        }
        fs::copy(&path, &name_to).map_err(MutantError::io("copy", &path))?;
        // What was built is told from its sources by time.
        let modified = entry.metadata().and_then(|it| it.modified()).map_err(MutantError::io("examine", &path))?;
        let file = fs::File::options().append(true).open(&name_to);
        file.and_then(|file| file.set_modified(modified)).map_err(MutantError::io("touch", &name_to))?;
    }
    Ok(())
}
