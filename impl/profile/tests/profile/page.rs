//! The page: its text, and what it does in a browser.
//!
//! Without Chromium the tests in a browser say so and pass, unless `SETTLED_NEED_BROWSER=1`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use settled_profile::report::html;
use settled_profile::{Cell, Outcome, Report};
use sha2::Digest;

use crate::sample::{HOSTILE, full, predicted, profile, report, result, run};

const PROBE: &str = include_str!("page_probe.js");

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).unwrap().1.split_once(to).unwrap().0
}

fn hash(script: &str) -> String {
    let digest = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(script));
    format!("'sha256-{digest}'")
}

fn own_script(page: &str) -> &str {
    between(page, "<script>", "</script>")
}

#[test]
fn the_policy_lets_the_pages_own_script_run_and_nothing_else() {
    let page = html(&[full()]);
    let policy = between(&page, "Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    let hash = hash(own_script(&page));
    assert!(policy.contains(&format!("script-src {hash};")), "the script's hash is {hash}");
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "").replace("href=\"#", "");
    for link in ["http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!elsewhere.contains(link), "{link}");
    }
}

/// A report in which everything that a framework or an adapter says is hostile.
fn hostile() -> Report {
    let runs = vec![run(Outcome::Error(HOSTILE.to_owned()), &[1, 2]); 2];
    let mut cell = predicted(result(Cell::KillAfterEffect, runs), &[HOSTILE], false);
    cell.property = Some(HOSTILE.to_owned());
    cell.fault = Some(HOSTILE.to_owned());
    let mut first = profile(HOSTILE, HOSTILE, HOSTILE, None, vec![cell.clone()]);
    first.left_out.insert("approved-twice".to_owned(), HOSTILE.to_owned());
    let second = profile(HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE), vec![cell]);
    let mut report = report(vec![first, second]);
    report.command = HOSTILE.to_owned();
    report.machine.system = HOSTILE.to_owned();
    report
}

#[test]
fn hostile_texts_are_only_texts() {
    let page = html(&[hostile()]);
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script").count(), 2);
    for tag in ["<img", "<!--", "-->", "\u{1b}", "\u{202e}"] {
        assert!(!page.contains(tag), "{tag:?}");
    }
    assert!(page.contains("&lt;/script&gt;&lt;img"));
}

#[test]
fn every_profile_and_every_cell_is_on_the_page() {
    let page = html(&[full()]);
    let matrix = between(&page, "<table class=\"matrix\">", "</table>");
    assert_eq!(matrix.matches("<tr data-name=").count(), 4);
    assert_eq!(matrix.matches("<button").count(), 26);
    assert!(matrix.contains("aria-label=\"kill-at-random: duplicate 3 of 5 (up to 2 effects), once 2 of 5\""));
    assert!(page.contains("title=\"it knows no approval\""));
    for text in ["settled profile run --all --repeat 5", "Linux 6.1", "Example CPU", "2 cores", "Python 3.11.2"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(page.contains("2 duplicate before, 0 behind settled"));
}

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

/// The page as it is after its scripts have run, and what was written to the console. `None` without a browser.
fn browse(page: &str, fragment: &str, directory: &Path) -> Option<(String, String)> {
    let Some(chromium) = chromium() else {
        let needed = std::env::var_os("SETTLED_NEED_BROWSER").is_some_and(|it| it == "1");
        assert!(!needed, "chromium is needed, and is not in the PATH");
        eprintln!("chromium is not installed: the page is not tried in a browser");
        return None;
    };
    let (file, dom, log) = (directory.join("page.html"), directory.join("dom"), directory.join("log"));
    std::fs::write(&file, page).unwrap();
    let mut child = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-extensions", "--enable-logging=stderr", "--dump-dom"])
        .args(["--virtual-time-budget=5000", "--window-size=1280,900"])
        .arg(format!("--user-data-dir={}", directory.join("user").display()))
        .arg(format!("file://{}{fragment}", file.display()))
        .stdout(std::fs::File::create(&dom).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("the browser did not end: {}", std::fs::read_to_string(&log).unwrap_or_default());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let console = read(&log).lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>().join("\n");
    let dom = read(&dom);
    assert!(dom.contains("</html>"), "the browser showed nothing: {}", read(&log));
    Some((dom, console))
}

/// The page with a script of ours behind its own: it clicks and types, and writes down what it finds.
fn probed(page: &str) -> String {
    let own = hash(own_script(page));
    let allowed = page.replacen(&own, &format!("{own} {}", hash(PROBE)), 1);
    allowed.replacen("</body>", &format!("<script>{PROBE}</script></body>"), 1)
}

#[test]
fn the_page_works_in_a_browser() {
    let directory = tempfile::tempdir().unwrap();
    let Some((dom, console)) = browse(&probed(&html(&[full()])), "", directory.path()) else { return };
    assert_eq!(console, "");
    let found = between(&dom, "<pre id=\"probe\">", "</pre>");
    assert_eq!(found.trim(), "all 14 checks hold", "{found}");
}

#[test]
fn a_hostile_page_runs_nothing_and_a_link_opens_a_run() {
    let directory = tempfile::tempdir().unwrap();
    // As it is, without anything of ours in it.
    let page = html(&[hostile()]);
    let Some((dom, console)) = browse(&page, "#cell=0/kill-after-effect/2", directory.path()) else { return };
    assert_eq!(console, "");
    assert!(dom.contains("<dialog id=\"detail\" aria-labelledby=\"detail-title\" open"), "{dom}");
    assert!(dom.contains("class=\"course\"") && dom.contains("effect b (2.)"));
    assert!(!dom.contains("<img"));
}
