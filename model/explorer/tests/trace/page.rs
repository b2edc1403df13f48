//! HTML.

use base64::Engine;
use sha2::Digest;

use crate::samples::{self, NAUGHTY};

fn count(html: &str, what: &str) -> usize {
    html.matches(what).count()
}

/// What is between the first `from` and the next `to`.
fn between<'a>(html: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = html.split_once(from).unwrap();
    rest.split_once(to).unwrap().0
}

#[test]
fn every_page_shows_every_step_and_the_beginning() {
    for (name, trace) in samples::all() {
        let html = trace.html();
        assert_eq!(count(&html, "<li class=\"state\""), trace.steps.len() + 1, "{name}");
        assert_eq!(count(&html, "<rect class=\"step-row"), trace.steps.len() + 1, "{name}");
        for step in 0..=trace.steps.len() {
            assert_eq!(count(&html, &format!("<li class=\"state\" data-step=\"{step}\"")), 1, "{name}");
        }
        if name != "hostile" {
            for step in &trace.steps {
                assert!(html.contains(&format!(": {}</h2>", step.text)), "{name}: {}", step.text);
            }
        }
        assert!(html.contains(trace.property.means()), "{name}");
    }
}

#[test]
fn the_policy_lets_the_pages_own_script_run_and_nothing_else() {
    let html = samples::charge().html();
    let script = between(&html, "<script>", "</script>");
    let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(script));
    let policy = between(&html, "Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(policy.contains(&format!("script-src 'sha256-{hash}';")), "the script's hash is sha256-{hash}");
    let elsewhere = html.replace("http://www.w3.org/2000/svg", "");
    for link in ["http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!elsewhere.contains(link), "{link}");
    }
}

#[test]
fn hostile_texts_are_only_texts() {
    let html = samples::hostile().html();
    assert_eq!(count(&html, "<script"), 1);
    assert_eq!(count(&html, "</script"), 1);
    for tag in ["<img", "<!--", "]]>", "-->"] {
        assert!(!html.contains(tag), "{tag}");
    }
    assert!(!html.contains('\u{202e}') && !html.contains('\u{1b}'));
    assert!(html.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&gt;&lt;img"));
    assert!(!html.contains(NAUGHTY));
    // The same elements as in a harmless page of the same form, so no text has become one.
    let mut harmless = samples::hostile();
    let calm = |text: &mut String| *text = text.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    for state in harmless.steps.iter_mut().map(|step| &mut step.state).chain([&mut harmless.beginning]) {
        for lines in [&mut state.callers, &mut state.guards, &mut state.ledger, &mut state.network, &mut state.effects]
        {
            lines.iter_mut().for_each(calm);
        }
    }
    let panel = |html: &str| between(html, "<ol class=\"states\"", "</ol>").matches('<').count();
    for step in &mut harmless.steps {
        calm(&mut step.text);
        step.told.iter_mut().for_each(calm);
    }
    assert_eq!(panel(&html), panel(&harmless.html()));
}

#[test]
fn what_changed_is_marked() {
    let html = samples::charge().html();
    let state = |step: usize| {
        let from = format!("<li class=\"state\" data-step=\"{step}\">");
        between(&html, &from, "<li class=\"state\"")
    };
    let eighth = state(8);
    assert!(eighth.contains("<li class=\"new\"><ins>effect 1, for caller A (attempt 1, key 1)</ins></li>"), "{eighth}");
    assert!(eighth.contains("<li class=\"gone\"><del>request to the tool: attempt 1, key 1</del></li>"), "{eighth}");
    assert!(eighth.contains("<li>answer to guard 1: not applied (attempt 1, key 1)</li>"), "{eighth}");
    assert!(!state(0).contains("class=\"new\""));
    assert!(state(4).contains("<b>✗ fault: timeouts</b>. The guard (or a direct caller) gives up waiting"));
}

#[test]
fn the_heading_names_the_faults_and_how_it_goes_on() {
    let html = samples::livelock().html();
    let header = between(&html, "<header>", "</header>");
    assert!(header.contains("<b>guard-crashes: 1</b>. A guard process is killed"), "{header}");
    assert!(header.contains("Steps 4 to 6 repeat for ever."), "{header}");
    assert!(header.contains("&quot;kind&quot;: &quot;observable&quot;"), "{header}");
    assert_eq!(count(&html, "<p class=\"round\">Repeats for ever.</p>"), 3);
    assert!(samples::all().pop().unwrap().1.html().contains("It needs no fault."));
}
