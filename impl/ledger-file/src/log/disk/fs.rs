//! Files of the operating system.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Disk, DiskFile, Displaced, FileId};

/// A real directory. It is created with mode 0700, its files with mode 0600.
#[derive(Debug, Clone)]
pub struct FsDisk {
    dir: PathBuf,
    id: FileId,
    sync_delay: Duration,
}

impl FsDisk {
    /// Uses `dir`, and creates it (durably) where it doesn't exist. The mode of an existing directory is left alone.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        create_dir(&dir)?;
        let id = FileId::at(&dir)?;
        Ok(FsDisk { dir, id, sync_delay: Duration::ZERO })
    }

    /// Makes every sync of a file's data take this much longer, to measure as on a slower disk.
    #[must_use]
    pub fn with_sync_delay(mut self, delay: Duration) -> Self {
        self.sync_delay = delay;
        self
    }

    /// The directory that it uses.
    #[cfg_attr(loom, allow(dead_code))]
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    fn file(&self, name: &str, options: &OpenOptions) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.dir.join(name);
        let file = options.open(&path)?;
        let id = FileId::of(&file.metadata()?);
        Ok(Arc::new(FsFile { file, id, path, disk: self.clone() }))
    }
}

/// Creates `dir` and its missing parents, each synced into its own parent; all of them or none.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()).collect();
    let mut created = Vec::new();
    for dir in missing.into_iter().rev() {
        if let Err(error) = create_one(dir, &mut created) {
            // What someone else has put something into meanwhile stays.
            created.iter().rev().for_each(|dir| drop(std::fs::remove_dir(dir)));
            return Err(error);
        }
    }
    Ok(())
}

fn create_one<'a>(dir: &'a Path, created: &mut Vec<&'a Path>) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => created.push(dir),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(e) => return Err(e),
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

impl Disk for FsDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        self.file(name, &options)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, OpenOptions::new().read(true).write(true))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        // A name that isn't Unicode can't be one of the log's.
        std::fs::read_dir(&self.dir)?
            .map(|entry| Ok(entry?.file_name().into_string().ok()))
            .filter_map(Result::transpose)
            .collect()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

#[derive(Debug)]
struct FsFile {
    file: File,
    id: FileId,
    path: PathBuf,
    disk: FsDisk,
}

impl DiskFile for FsFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if !self.disk.sync_delay.is_zero() {
            std::thread::sleep(self.disk.sync_delay);
        }
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn in_place(&self, len: u64) -> Result<(), Displaced> {
        Displaced::check((&self.disk.dir, self.disk.id), (&self.path, self.id), len)
    }
}
