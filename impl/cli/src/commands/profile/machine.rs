//! What this machine is.

use settled_profile::Machine;

/// How many processors there are.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX))
}

/// A random number, small enough to be typed again.
pub fn seed() -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id()) % 1_000_000
}

/// This machine.
pub fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let release = read("/proc/sys/kernel/osrelease");
    let system = match release.trim() {
        "" => std::env::consts::OS.to_owned(),
        release => format!("Linux {release}"),
    };
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = model.map_or(std::env::consts::ARCH.to_owned(), |(_, name)| name.trim().to_owned());
    Machine { system, processor, cores: cores() }
}
