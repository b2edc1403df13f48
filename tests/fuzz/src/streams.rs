//! Streams of language models' APIs, as they come from an upstream.

use settled_gateway::Preset;
use settled_gateway::fuzzing::{after, watch};

/// Any stream: however it comes in pieces, it is taken for the same, what was shown stays shown, and each place in it can be
/// found again.
pub fn any_stream(bytes: &[u8]) {
    for preset in [Preset::ChatCompletions, Preset::Responses, Preset::Messages] {
        let whole = watch(preset, bytes, bytes.len(), |came, shown| assert!(shown <= came));
        assert!(!(whole.is_whole && whole.went_wrong));
        for piece in [1, 2, 3, 7] {
            let mut before = 0;
            let again = watch(preset, bytes, piece, |came, shown| {
                assert!(shown <= came);
                // The end of an event lets go what was held; nothing takes back what is out.
                before = shown.max(before);
            });
            assert_eq!(again, whole, "{preset:?} in pieces of {piece}");
            assert!(before <= again.shown, "{preset:?}: {before} bytes were shown, and then it was {}", again.shown);
        }
    }
    places(bytes);
}

fn places(bytes: &[u8]) {
    let mut before = after(bytes, "").expect("that is the start");
    assert_eq!(before, 0);
    for number in 1_usize.. {
        let Some(place) = after(bytes, &number.to_string()) else { break };
        assert!(place > before && place <= bytes.len(), "event {number} ends at {place}, the one before at {before}");
        before = place;
    }
    for last in ["id", "e1", "\u{fffd}", "18446744073709551616"] {
        assert!(after(bytes, last).is_none_or(|place| place <= bytes.len()));
    }
}
