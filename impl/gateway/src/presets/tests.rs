use proptest::prelude::*;

use super::*;

const CHAT: &str = concat!(
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße\"}}]}\n\n",
    ": keep-alive\n\n",
    "data: {\"id\":\"c1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":11,\"total_tokens\":18}}\n\n",
    "data: [DONE]\n\n",
);
const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n",
    "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Grüße\"}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":7,",
    "\"output_tokens\":11}}}\n\n",
);
const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7,",
    "\"cache_read_input_tokens\":3,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Grüße\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":11}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

fn all() -> [(Preset, &'static str); 3] {
    [(Preset::ChatCompletions, CHAT), (Preset::Responses, RESPONSES), (Preset::Messages, MESSAGES)]
}

fn watched(preset: Preset, pieces: &[&[u8]]) -> Watcher {
    let mut watcher = Watcher::new(preset, 1 << 20);
    pieces.iter().for_each(|piece| watcher.feed(piece));
    watcher
}

/// Where the last event begins.
fn last_event(text: &str) -> usize {
    text.trim_end().rfind("\n\n").unwrap() + 2
}

#[test]
fn a_whole_stream_says_so_and_what_it_cost() {
    for (preset, text) in all() {
        let mut watcher = watched(preset, &[text.as_bytes()]);
        assert!(watcher.is_whole(), "{preset:?}");
        assert_eq!(watcher.held(), text.len() - last_event(text), "{preset:?}");
        assert_eq!(watcher.end(), StreamEnd::Whole);
        let cost: Vec<_> = watcher.usage().kinds().collect();
        let cache = (preset == Preset::Messages).then_some(("cache_read", 3));
        assert_eq!(cost, [("input", 7), ("output", 11)].into_iter().chain(cache).collect::<Vec<_>>(), "{preset:?}");
    }
}

#[test]
fn a_stream_that_ends_before_its_end_marker_is_cut_wherever_that_is() {
    for (preset, text) in all() {
        // The text of the last event without its last two line ends is all of that event.
        for end in 0..text.len() - 2 {
            let mut watcher = watched(preset, &[&text.as_bytes()[..end]]);
            assert!(!watcher.is_whole());
            assert_eq!(
                watcher.end(),
                StreamEnd::Cut,
                "{preset:?} {:?}",
                &text.as_bytes()[..end].escape_ascii().to_string()
            );
        }
        for end in text.len() - 2..text.len() {
            assert_eq!(watched(preset, &[&text.as_bytes()[..end]]).end(), StreamEnd::Whole);
        }
    }
}

#[test]
fn what_ends_a_stream_in_one_api_means_nothing_in_another() {
    for (preset, text) in all() {
        for (other, _) in all().into_iter().filter(|(other, _)| *other != preset) {
            assert_eq!(watched(other, &[text.as_bytes()]).end(), StreamEnd::Cut, "{text} as {other:?}");
        }
    }
}

#[test]
fn every_end_marker_counts_with_its_event_name_or_without() {
    for kind in ["response.completed", "response.incomplete", "response.failed"] {
        for text in [
            format!("data: {{\"type\":\"{kind}\",\"response\":{{}}}}\n\n"),
            format!("event: {kind}\r\ndata: {{\"response\":{{}}}}\r\n\r\n"),
        ] {
            assert_eq!(watched(Preset::Responses, &[text.as_bytes()]).end(), StreamEnd::Whole, "{text}");
        }
    }
    let done = "\u{feff}data:[DONE]\r\r";
    assert_eq!(watched(Preset::ChatCompletions, &[done.as_bytes()]).end(), StreamEnd::Whole);
    // A text that speaks of the marker is not the marker.
    for text in ["data: {\"content\":\"[DONE]\"}\n\n", ": [DONE]\n\n", "event: [DONE]\n\n", "data: \"[DONE]\"\n\n"] {
        assert_eq!(watched(Preset::ChatCompletions, &[text.as_bytes()]).end(), StreamEnd::Cut, "{text}");
    }
    let array = "data: [\"message_stop\"]\n\n";
    assert_eq!(watched(Preset::Messages, &[array.as_bytes()]).end(), StreamEnd::Cut);
}

#[test]
fn an_error_is_no_whole_answer_and_is_passed_on() {
    for (preset, error) in [
        (Preset::ChatCompletions, "data: {\"error\":{\"message\":\"overloaded\"}}\n\n"),
        (Preset::Responses, "event: error\ndata: {\"type\":\"error\",\"message\":\"no\"}\n\n"),
        (Preset::Messages, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"),
        (Preset::Messages, "data: {\"type\":\"error\"}\n\n"),
    ] {
        for after in ["", "data: [DONE]\n\n", MESSAGES, RESPONSES] {
            let mut watcher = watched(preset, &[error.as_bytes(), after.as_bytes()]);
            assert_eq!((watcher.held(), watcher.end()), (0, StreamEnd::WentWrong), "{preset:?} {error}");
        }
    }
    // No error is none.
    let none = "data: {\"error\":null,\"choices\":[]}\n\ndata: [DONE]\n\n";
    assert_eq!(watched(Preset::ChatCompletions, &[none.as_bytes()]).end(), StreamEnd::Whole);
}

#[test]
fn comments_pass_at_once_and_an_event_when_it_is_whole() {
    let mut watcher = Watcher::new(Preset::Messages, 1 << 20);
    for (piece, held) in [
        (": still there\n", 0),
        ("\n", 0),
        ("\r\n", 0),
        ("event: x\n", 9),
        ("data: 1\n", 17),
        ("\r", 0),
        ("\n", 0),
        ("unknown: y\n", 0),
        ("event: message_stop\ndata: {}", 28),
        ("\n\n", 30),
        ("more", 34),
    ] {
        watcher.feed(piece.as_bytes());
        assert_eq!(watcher.held(), held, "after {piece:?}");
    }
}

#[test]
fn an_event_that_is_too_long_is_passed_on_and_nothing_is_known_of_the_stream() {
    let mut watcher = Watcher::new(Preset::ChatCompletions, 64);
    watcher.feed(format!("data: {}", "x".repeat(100)).as_bytes());
    assert_eq!(watcher.held(), 0);
    watcher.feed(b"\n\ndata: [DONE]\n\n");
    assert_eq!((watcher.held(), watcher.end()), (0, StreamEnd::Cut));
}

#[test]
fn an_answer_that_is_no_stream_says_what_it_cost_too() {
    let cost = |preset: Preset, body: &str| preset.usage_of(body.as_bytes()).kinds().collect::<Vec<_>>();
    let chat = "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":11}}";
    assert_eq!(cost(Preset::ChatCompletions, chat), [("input", 7), ("output", 11)]);
    let message = "{\"type\":\"message\",\"usage\":{\"input_tokens\":7,\"output_tokens\":11}}";
    assert_eq!(cost(Preset::Messages, message), [("input", 7), ("output", 11)]);
    for other in
        ["", "[]", "{}", "{\"usage\":null}", "{\"usage\":{\"input_tokens\":-1}}", "{\"usage\":[7]}", "{\"usage\":"]
    {
        assert_eq!(cost(Preset::Responses, other), [], "{other}");
    }
}

#[test]
fn presets_go_by_the_path() {
    assert_eq!(Preset::of_path("/v1/chat/completions"), Some(Preset::ChatCompletions));
    assert_eq!(Preset::of_path("/proxy/v1/responses"), Some(Preset::Responses));
    assert_eq!(Preset::of_path("/v1/messages"), Some(Preset::Messages));
    for other in ["/", "/v1/messages/count_tokens", "/v1/completions", "/v1/responses/r1", "/v1/chat/completions/"] {
        assert_eq!(Preset::of_path(other), None, "{other}");
    }
}

proptest! {
    #[test]
    fn however_a_stream_comes_in_pieces_its_end_is_held_and_nothing_else_is_at_the_end_of_an_event(
        which in 0_usize..3,
        crlf in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        more in "[a-z\n]{0,8}",
    ) {
        let (preset, text) = all()[which];
        let text = if crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
        let last = text.trim_end().rfind(if crlf { "\r\n\r\n" } else { "\n\n" }).unwrap() + if crlf { 4 } else { 2 };
        let bytes = format!("{text}{more}").into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut watcher = Watcher::new(preset, 1 << 20);
        for pair in cuts.windows(2) {
            watcher.feed(&bytes[pair[0]..pair[1]]);
            let shown = pair[1] - watcher.held();
            prop_assert!(shown <= last, "the end was shown");
            // At the second half of a line end, too, nothing is left to be shown.
            let at_end_of_event = bytes[..pair[1]].ends_with(if crlf { b"\r\n\r\n" } else { b"\n\n" });
            prop_assert!(!at_end_of_event || shown == pair[1].min(last), "something was kept back");
        }
        prop_assert_eq!(watcher.held(), bytes.len() - last);
        prop_assert_eq!(watcher.end(), StreamEnd::Whole);
        prop_assert_eq!(watcher.usage().output, Some(11));
    }
}
