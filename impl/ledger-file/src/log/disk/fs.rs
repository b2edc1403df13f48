//! Files of the operating system.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{Disk, DiskFile};

/// A real directory. It is created with mode 0700, its files with mode 0600.
#[derive(Debug, Clone)]
pub struct FsDisk {
    dir: PathBuf,
    sync_delay: Duration,
}

impl FsDisk {
    /// Uses `dir`, and creates it (durably) where it doesn't exist. The mode of an existing directory is left alone.
    pub fn open(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        create_dir(&dir)?;
        Ok(FsDisk { dir, sync_delay: Duration::ZERO })
    }

    /// Makes every sync of a file's data take this much longer, to measure as on a slower disk.
    #[must_use]
    pub fn with_sync_delay(mut self, delay: Duration) -> Self {
        self.sync_delay = delay;
        self
    }

    fn file(&self, file: File) -> Arc<dyn DiskFile> {
        Arc::new(FsFile { file, sync_delay: self.sync_delay })
    }
}

/// Creates `dir` and its missing parents, each synced into its own parent.
pub(crate) fn create_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = match dir.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    create_dir(parent)?;
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        other => other?,
    }
    File::open(parent)?.sync_all()
}

impl Disk for FsDisk {
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        Ok(self.file(options.open(self.dir.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(OpenOptions::new().read(true).write(true).open(self.dir.join(name))?))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        // A name that isn't Unicode can't be one of the log's.
        std::fs::read_dir(&self.dir)?
            .map(|entry| Ok(entry?.file_name().into_string().ok()))
            .filter_map(Result::transpose)
            .collect()
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

#[derive(Debug)]
struct FsFile {
    file: File,
    sync_delay: Duration,
}

impl DiskFile for FsFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if !self.sync_delay.is_zero() {
            std::thread::sleep(self.sync_delay);
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
}
