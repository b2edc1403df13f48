//! What was charged, and what went wrong: lines of files, synced.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use settled_tests::{FAULT_HEADER, Fault, WISH_HEADER};

use crate::request::Request;

/// A charge.
pub struct Charge {
    /// Its number: that of its line.
    pub number: usize,
}

/// The files.
pub struct Books {
    effects: PathBuf,
    writing: Mutex<()>,
}

impl Books {
    pub fn open() -> Books {
        let effects = std::env::var_os("EFFECTS").expect("EFFECTS names the file of charges").into();
        Books { effects, writing: Mutex::new(()) }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.effects.clone().into_os_string();
        name.push(ending);
        name.into()
    }

    pub fn note_request(&self, request: &Request) {
        let line = serde_json::json!({
            "method": request.method, "target": request.target, "headers": request.headers,
            "body": String::from_utf8_lossy(&request.body),
        });
        let _writing = self.writing.lock().expect("no panic while held");
        append(&self.beside(".requests"), &line.to_string());
    }

    /// What is to go wrong with this request. A fault strikes a wish once.
    pub fn strike(&self, request: &Request) -> Fault {
        let Some(fault) = request.header(FAULT_HEADER) else { return Fault::None };
        let fault: Fault = fault.parse().expect("a fault");
        let wish = wish(request);
        let _writing = self.writing.lock().expect("no panic while held");
        let struck = lines(&self.beside(".faults")).iter().any(|line| line.split(' ').next() == Some(wish));
        if fault == Fault::None || struck {
            return Fault::None;
        }
        append(&self.beside(".faults"), &format!("{wish} {fault}"));
        fault
    }

    /// Charges for a request, unless its key is known and that counts.
    pub fn charge(&self, request: &Request, keys: bool) -> Charge {
        let key = request.header("idempotency-key").unwrap_or("-").replace(' ', "_");
        let _writing = self.writing.lock().expect("no panic while held");
        let known = lines(&self.effects);
        if keys && key != "-" {
            let same = |line: &String| line.split(' ').nth(2) == Some(key.as_str());
            if let Some(place) = known.iter().position(same) {
                return Charge { number: place + 1 };
            }
        }
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_millis();
        let pid = std::process::id();
        append(&self.effects, &format!("charge {} {key} {} {pid} {millis}", wish(request), request.path()));
        Charge { number: known.len() + 1 }
    }
}

fn wish(request: &Request) -> &str {
    request.header(WISH_HEADER).unwrap_or("-")
}

fn lines(path: &PathBuf) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn append(path: &PathBuf, line: &str) {
    let mut file: File = OpenOptions::new().create(true).append(true).open(path).expect("a file");
    file.write_all(format!("{line}\n").as_bytes()).expect("a line is written");
    file.sync_data().expect("a line is synced");
}
