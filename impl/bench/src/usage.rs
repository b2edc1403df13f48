//! What this process has used so far, as Linux tells it; nothing where it doesn't.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// What this process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Time on processors, of all threads, those that have ended included.
    pub cpu: Option<Duration>,
    /// Bytes written to the watched disk, by whomever.
    pub written: Option<u64>,
}

impl Usage {
    /// Up to now.
    pub fn now() -> Usage {
        Usage { cpu: cpu(), written: written() }
    }

    /// What was used between two points in time.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu: self.cpu.zip(earlier.cpu).map(|(now, then)| now.saturating_sub(then)),
            written: self.written.zip(earlier.written).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// A tick of the clock by which Linux reports processor time to programs is 10 ms, on all its architectures.
const TICK: Duration = Duration::from_millis(10);

fn cpu() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in brackets; it may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    // Fields 14 and 15 of all: in user mode and in the kernel.
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * ticks()?.saturating_add(ticks()?))
}

/// The statistics of the disk that is watched.
static DISK: OnceLock<PathBuf> = OnceLock::new();

/// From now on the disk that holds this directory is watched; the first one that is named. (What the system says of a process's
/// own writes counts whole folios of memory, up to 2 MiB for a single byte.)
pub fn watch(dir: &Path) {
    if let Ok(its) = fs::metadata(dir) {
        let device = its.dev();
        let (major, minor) = ((device >> 8) & 0xfff, device & 0xff | (device >> 12) & 0xf_ff00);
        DISK.get_or_init(|| format!("/sys/dev/block/{major}:{minor}/stat").into());
    }
}

fn written() -> Option<u64> {
    let stat = fs::read_to_string(DISK.get()?).ok()?;
    // The seventh field: sectors of 512 bytes.
    stat.split_whitespace().nth(6)?.parse::<u64>().ok().map(|sectors| sectors * 512)
}

/// Time on processors of the calling thread.
pub fn of_this_thread() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Memory resident now, in bytes.
pub fn resident() -> Option<u64> {
    resident_of(std::process::id())
}

/// Memory resident now in another process, in bytes.
pub fn resident_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn time_on_processors_is_counted() {
        let before = Usage::now();
        let begun = Instant::now();
        let mut value = 1_u64;
        while begun.elapsed() < Duration::from_millis(200) {
            value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let used = Usage::now().since(before).cpu.unwrap();
        // Others may want the processors, too; and tests of one process run together.
        assert!(used >= Duration::from_millis(20), "{used:?}");
        assert!(resident().unwrap() > 100_000);
    }
}
