//! Text and Mermaid.

use crate::samples;

#[test]
fn text_shows_steps_faults_and_what_is_violated() {
    let text = samples::charge().text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "   1   caller A → guard 1 calls");
    assert_eq!(lines[1], "   2   guard 1            takes up caller A’s call (key 1)");
    assert_eq!(lines[2], "                          └ ledger: key 1 dispatched, attempt 1");
    assert_eq!(lines[4], "   4 ✗ guard 1            gives up waiting for the answer to key 1 (fault: timeouts)");
    assert_eq!(
        lines[lines.len() - 2..],
        ["       violates “at-most-once” (no operation has two effects); A: 2 effects", "       needs: timeouts 1"]
    );
    assert_eq!(text.matches("(fault: ").count(), 1);
}

#[test]
fn text_says_how_it_goes_on() {
    let mut trace = samples::livelock();
    let end = |text: String| text.lines().rev().take(3).map(|line| line.trim().to_owned()).collect::<Vec<_>>();
    assert_eq!(end(trace.text())[..2], ["needs: guard-crashes 1", "steps 4 to 6 repeat for ever"]);
    trace.round = Some(5);
    assert_eq!(end(trace.text())[1], "step 6 repeats for ever");
    trace.round = None;
    assert_eq!(end(trace.text())[1], "nothing more can happen");
    trace.property = settled_explorer::PropertyName::AtMostOnce;
    assert!(end(trace.text())[1].starts_with("violates"));
}

#[test]
fn mermaid_is_as_in_the_readme() {
    let expected = "\
sequenceDiagram
    participant caller_A as caller A
    participant tool as tool
    caller_A->>tool: calls
    Note over tool: carries out the call for caller A: effect 1
    caller_A->>tool: ⚡ has waited long enough and calls again
    Note over tool: carries out the call for caller A: effect 2
    Note over caller_A,tool: violates “at-most-once”";
    assert_eq!(samples::direct().mermaid(), expected);
}

#[test]
fn mermaid_shows_the_ledger_and_the_round() {
    let mermaid = samples::livelock().mermaid();
    let lines: Vec<_> = mermaid.lines().collect();
    assert_eq!(
        lines[1..6],
        [
            "    participant caller_A as caller A",
            "    participant guard_1 as guard 1",
            "    participant guard_2 as guard 2",
            "    participant ledger as ledger",
            "    participant tool as tool",
        ]
    );
    assert!(lines.contains(&"    Note over ledger: ledger: key 1 dispatched, attempt 1"), "{mermaid}");
    let tail = [
        "    loop for ever",
        "        guard_1->>tool: asks: applied? (key 1)",
        "        Note over tool: answers the question: unclear",
        "        tool->>guard_1: the answer arrives: unclear",
        "    end",
        "    Note over caller_A,tool: violates “settles”",
    ];
    assert!(lines.ends_with(&tail), "{mermaid}");
}

#[test]
fn a_ledger_that_acts_is_one_participant() {
    let mut trace = samples::charge();
    trace.steps[4].from = "ledger".to_owned();
    assert_eq!(trace.mermaid().matches("participant ledger as ledger").count(), 1);
}

#[test]
fn every_step_is_a_line_and_no_text_is_more_than_text() {
    for (name, trace) in samples::all() {
        let (text, mermaid) = (trace.text(), trace.mermaid());
        let numbered = text.lines().filter(|line| line.get(..4).is_some_and(|n| n.trim().parse::<usize>().is_ok()));
        assert_eq!(numbered.count(), trace.steps.len(), "{name}");
        let told = |line: &&str| {
            line.contains("->>")
                || line.contains("Note over") && !line.contains("over ledger") && !line.contains("violates")
        };
        assert_eq!(mermaid.lines().filter(told).count(), trace.steps.len(), "{name}: {mermaid}");
        assert!(mermaid.ends_with(&format!("violates “{}”", trace.property.name())), "{name}");
        for form in [&text, &mermaid] {
            assert!(!form.chars().any(|c| c != '\n' && c.is_control() || c == '\u{202e}'), "{name}");
        }
        assert!(mermaid.lines().all(|line| line == "sequenceDiagram" || line.starts_with("    ")), "{name}: {mermaid}");
        assert!(!mermaid.contains(['#', ';']), "{name}: {mermaid}");
    }
}
