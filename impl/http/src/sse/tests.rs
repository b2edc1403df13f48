use proptest::prelude::*;

use super::*;

fn parse(text: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    Parser::new(1 << 20).feed(text, &mut events).unwrap();
    events
}

fn data(events: &[Event]) -> Vec<&str> {
    events.iter().filter_map(|event| event.data.as_deref()).map(|data| std::str::from_utf8(data).unwrap()).collect()
}

#[test]
fn the_standards_examples() {
    let events = parse(b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n");
    assert_eq!(data(&events), ["first event", "second event", " third event"]);
    assert_eq!(events.iter().map(|event| event.id.as_deref()).collect::<Vec<_>>(), [Some("1"), Some(""), None]);
    assert_eq!(data(&parse(b"data: YHOO\ndata: +2\ndata: 10\n\n")), ["YHOO\n+2\n10"]);
    assert_eq!(data(&parse(b"data\n\ndata\ndata\n\ndata:")), ["", "\n"]);
    assert_eq!(data(&parse(b"data:test\n\ndata: test\n\n")), ["test", "test"]);
    assert_eq!(parse(b"event: add\r\ndata: 1\r\revent: \ndata: 2\n\n")[0].name.as_deref(), Some("add"));
}

#[test]
fn line_ends_marks_and_fields_as_the_standard_says() {
    assert_eq!(data(&parse(b"data: a\r\n\r\ndata: b\r\rdata: c\n\n")), ["a", "b", "c"]);
    assert_eq!(data(&parse(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n")), ["a"]);
    let event = &parse(b"id: 7\0\nretry: 1x\nretry: 250\nother: 1\ndata: a\n\n")[0];
    assert_eq!((event.id.as_deref(), event.retry), (None, Some(Duration::from_millis(250))));
    assert!(parse(b"data: not ended\n").is_empty());
    assert!(parse(b"\n\n: comment\n\nother\n\n").is_empty());
    // A name or value that isn't text is kept as bytes, or ignored.
    assert_eq!(parse(b"data: \xff\n\n")[0].data.as_deref(), Some(&b"\xff"[..]));
}

#[test]
fn a_priming_event_has_an_id_and_no_message() {
    let events = parse(&priming("s-1", Some(Duration::from_secs(1))));
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!((event.id.as_deref(), event.retry), (Some("s-1"), Some(Duration::from_secs(1))));
    assert_eq!((event.data.as_deref(), event.message()), (Some(&b""[..]), None));
    assert!(parse(&STILL_THERE).is_empty());
    assert_eq!(parse(b"event: endpoint\ndata: /x\n\n")[0].message(), None);
}

#[test]
fn what_is_too_long_is_refused() {
    let mut events = Vec::new();
    let mut parser = Parser::new(64);
    parser.feed(format!("data: {}\n\n", "x".repeat(64)).as_bytes(), &mut events).unwrap();
    assert_eq!(events.len(), 1);
    assert!(parser.feed(format!("data: {}", "x".repeat(90)).as_bytes(), &mut events).is_err());
    let mut parser = Parser::new(64);
    let many = "data: xxxxxxxxxx\n".repeat(20);
    assert!(parser.feed(many.as_bytes(), &mut events).is_err());
}

#[test]
fn a_large_message_is_not_copied_to_be_sent() {
    let large = Bytes::from("x".repeat(10 << 20));
    let pieces = message(Some("1"), &large);
    assert!(pieces.iter().any(|piece| std::ptr::eq(piece.as_ptr(), large.as_ptr())));
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b":".to_vec()),
        Just(b" ".to_vec()),
        Just(b"data".to_vec()),
        Just(b"data: ".to_vec()),
        Just(b"id: 5".to_vec()),
        Just(b"event:e".to_vec()),
        Just(b"retry:9".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn how_the_bytes_are_cut_changes_nothing(text in text(), cuts in prop::collection::vec(0_usize..200, 0..8)) {
        let whole = parse(&text);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let (mut parser, mut events) = (Parser::new(1 << 20), Vec::new());
        for pair in cuts.windows(2) {
            parser.feed(&text[pair[0]..pair[1]], &mut events).unwrap();
        }
        prop_assert_eq!(events, whole);
    }

    #[test]
    fn one_event_at_a_time_takes_the_same_bytes(text in text()) {
        let (mut parser, mut rest, mut events) = (Parser::new(1 << 20), &text[..], Vec::new());
        while let Some(event) = parser.next(&mut rest).unwrap() {
            // What is left begins anew, but for the second half of a line end.
            prop_assert!(parser.is_between());
            events.push(event);
        }
        prop_assert!(rest.is_empty());
        prop_assert_eq!(events, parse(&text));
    }

    #[test]
    fn a_message_comes_back_as_it_went(message_text in text(), id in prop::option::of("[a-z0-9-]{1,12}")) {
        let sent = Bytes::from(message_text);
        let pieces = message(id.as_deref(), &sent).concat();
        let events = parse(&pieces);
        prop_assert_eq!(events.len(), 1);
        let got = String::from_utf8_lossy(events[0].data.as_deref().unwrap()).into_owned();
        let wanted = String::from_utf8_lossy(&sent).replace("\r\n", "\n").replace('\r', "\n");
        prop_assert_eq!(got, wanted);
        prop_assert_eq!(events[0].id.clone(), id);
    }
}
