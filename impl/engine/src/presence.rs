//! Telling whether the process behind an ownership has ended, for ledgers that many hosts share.
//!
//! A lease that has run out says only that nothing was heard: the process may be frozen, or cut off. That it is *gone* can be
//! known where it ran: its process is looked for by number and start time, in the same pid namespace of the same running
//! kernel; or that kernel itself no longer runs, because the machine has been started again since.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use settled_protocol::Digest;

/// The first pid namespace of every Linux kernel has this name: processes in it are in no container.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Where and what a process is: to be stored by one process, and looked at by others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The machine, if it can be told apart from all others.
    machine: Option<Digest>,
    /// The running kernel, until the machine is started again.
    boot: Option<String>,
    pid_namespace: Option<String>,
    /// Start times are counted differently in different ones.
    time_namespace: Option<String>,
    pid: u32,
    /// When the process was started, in the kernel's ticks.
    started: Option<u64>,
}

impl Presence {
    /// This process's.
    pub fn of_this_process() -> Presence {
        let pid = std::process::id();
        let pid_namespace = link("/proc/self/ns/pid");
        // A /proc that was mounted for other processes than these says nothing about them.
        let ours = link("/proc/self").is_some_and(|name| name == pid.to_string());
        Presence {
            machine: if pid_namespace.as_deref() == Some(FIRST_PID_NAMESPACE) { machine() } else { None },
            boot: text("/proc/sys/kernel/random/boot_id"),
            pid_namespace,
            time_namespace: link("/proc/self/ns/time"),
            pid,
            started: if ours { stat(pid).ok().map(|stat| stat.started) } else { None },
        }
    }

    /// Whether the process has certainly ended, as far as `here` (the calling process) can see. `false` says nothing.
    pub fn has_ended(&self, here: &Presence) -> bool {
        let (Some(boot), Some(boot_here)) = (&self.boot, &here.boot) else {
            return false;
        };
        if boot != boot_here {
            // Another machine, or this one before it was started again.
            return self.machine.is_some() && self.machine == here.machine;
        }
        let same_namespace = self.pid_namespace.is_some() && self.pid_namespace == here.pid_namespace;
        same_namespace && self.process_has_ended(here)
    }

    fn process_has_ended(&self, here: &Presence) -> bool {
        let Ok(pid) = i32::try_from(self.pid) else {
            return false;
        };
        // Not /proc: that can be mounted so that it hides other users' processes.
        if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) {
            return true;
        }
        let (Some(started), Some(_)) = (self.started, here.started) else {
            return false;
        };
        match stat(self.pid) {
            Ok(stat) => (stat.started != started && self.time_namespace == here.time_namespace) || stat.is_over,
            Err(_) => false,
        }
    }
}

/// What the kernel says of a process.
struct Stat {
    /// It has ended, and its parent has not noticed.
    is_over: bool,
    started: u64,
}

fn stat(pid: u32) -> io::Result<Stat> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not as proc(5) describes it");
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name before it may hold anything, also parentheses.
    let (_, rest) = text.rsplit_once(')').ok_or_else(malformed)?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next().ok_or_else(malformed)?;
    let started = fields.nth(18).and_then(|field| field.parse().ok()).ok_or_else(malformed)?;
    // A first thread that has ended is shown in the same way while others go on.
    let is_over = matches!(state, "Z" | "X") && fs::read_dir(format!("/proc/{pid}/task"))?.count() <= 1;
    Ok(Stat { is_over, started })
}

/// A name for this machine that survives its restarts and that no other machine has, if one can be made. The machine
/// id alone won't do: copies of a disk image share it. Copies with the same host name and the same network cards are no
/// copies.
fn machine() -> Option<Digest> {
    let id = text("/etc/machine-id").filter(|id| id.len() == 32)?;
    let host = text("/proc/sys/kernel/hostname")?;
    let mut cards: Vec<String> = fs::read_dir("/sys/class/net")
        .ok()?
        .flatten()
        .filter(|card| card.path().join("device").exists())
        .filter_map(|card| text(card.path().join("address").to_str()?))
        .collect();
    cards.sort();
    let cards = (!cards.is_empty()).then(|| cards.join(" "))?;
    Some(Digest::of_parts(&[id.as_bytes(), host.as_bytes(), cards.as_bytes()]))
}

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn link(path: &str) -> Option<String> {
    fs::read_link(path).ok()?.into_os_string().into_string().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn child() -> Child {
        Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap()
    }

    /// What a child of ours would have stored.
    fn presence(child: &Child) -> Presence {
        let started = Some(stat(child.id()).unwrap().started);
        Presence { pid: child.id(), started, ..Presence::of_this_process() }
    }

    #[test]
    fn a_process_is_there_until_it_has_ended_also_if_nobody_has_noticed() {
        let here = Presence::of_this_process();
        assert!(!here.has_ended(&here));
        let mut child = child();
        let there = presence(&child);
        assert!(!there.has_ended(&here));
        child.kill().unwrap();
        while stat(child.id()).is_ok_and(|stat| !stat.is_over) {
            std::thread::yield_now();
        }
        assert!(there.has_ended(&here), "a zombie");
        child.wait().unwrap();
        assert!(there.has_ended(&here));
    }

    #[test]
    fn another_process_with_the_same_number_is_another_process() {
        let here = Presence::of_this_process();
        let before = Presence { started: here.started.map(|ticks| ticks - 1), ..here.clone() };
        assert!(before.has_ended(&here));
        let elsewhere = Presence { time_namespace: Some("time:[1]".to_owned()), ..before };
        assert!(!elsewhere.has_ended(&here), "start times can't be compared");
    }

    #[test]
    fn nothing_is_concluded_of_other_machines_and_containers() {
        let here = Presence { machine: Some(Digest::of(b"this one")), ..Presence::of_this_process() };
        let gone = Presence { pid: u32::MAX >> 1, ..here.clone() };
        assert!(gone.has_ended(&here), "there is no process with such a number");
        let boot = || Some("another".to_owned());
        for (elsewhere, ended) in [
            (Presence { pid_namespace: Some("pid:[1]".to_owned()), ..gone.clone() }, false),
            (Presence { machine: Some(Digest::of(b"another")), boot: boot(), ..gone.clone() }, false),
            (Presence { machine: None, boot: boot(), ..gone.clone() }, false),
            (Presence { boot: None, ..gone.clone() }, false),
            (Presence { boot: boot(), ..gone }, true),
        ] {
            assert_eq!(elsewhere.has_ended(&here), ended, "{elsewhere:?}");
        }
    }
}
