//! The socket of a directory, whatever the length of its path.
//!
//! A socket's address holds about a hundred bytes of path. Longer ones are reached through the open directory's entry in
//! `/proc/self/fd`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

use crate::log::disk::FileId;

const NAME: &str = "socket";
/// Where a socket is prepared before it is put in place.
const PREPARED: &str = "socket.new";
/// The longest path that every system's socket address holds, with the null at its end.
const LONGEST: usize = 100;

/// A path for a socket's address, which is good while the file is open.
fn address(dir: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = dir.join(name);
    if path.as_os_str().len() < LONGEST {
        return Ok((path, None));
    }
    let open = File::open(dir)?;
    let path = Path::new("/proc/self/fd").join(open.as_raw_fd().to_string()).join(name);
    Ok((path, Some(open)))
}

/// A socket that is listened to.
pub(crate) struct Listening {
    pub listener: UnixListener,
    /// The user that the socket belongs to, which is the user of this process.
    pub user: u32,
    /// What its name must lead to.
    pub id: FileId,
}

/// Listens in the directory, in the place of whoever did before. Only for the directory's holder.
pub(crate) fn listen(dir: &Path) -> io::Result<Listening> {
    let prepared = dir.join(PREPARED);
    match fs::remove_file(&prepared) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let (address, _open) = address(dir, PREPARED)?;
    let listener = UnixListener::bind(address)?;
    fs::set_permissions(&prepared, Permissions::from_mode(0o600))?;
    let meta = fs::metadata(&prepared)?;
    // Whoever finds the socket finds one that is listened to, with the right mode.
    fs::rename(&prepared, dir.join(NAME))?;
    listener.set_nonblocking(true)?;
    Ok(Listening { listener, user: meta.uid(), id: FileId::of(&meta) })
}

/// Connects to the directory's holder. Fails at once if the holder has too many connections waiting.
pub(crate) async fn connect(dir: &Path) -> io::Result<UnixStream> {
    let (address, _open) = address(dir, NAME)?;
    UnixStream::connect(address).await
}

/// Whether the socket's name leads to the one with this identity.
pub(crate) fn is_at(dir: &Path, id: FileId) -> bool {
    FileId::at(&dir.join(NAME)).is_ok_and(|found| found == id)
}

/// Removes the socket with this identity. Only for the directory's holder.
pub(crate) fn remove(dir: &Path, id: FileId) {
    if is_at(dir, id) {
        // One that stays behind is replaced by the next holder.
        let _ = fs::remove_file(dir.join(NAME));
    }
}
