//! Any chunks, and listeners that come and go.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// What happens to a stream.
#[derive(Clone, Debug)]
enum Step {
    Chunk(Vec<u8>, usize),
    Join,
    Read(usize),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (prop::collection::vec(any::<u8>(), 0..20), 0_usize..30).prop_map(|(bytes, held)| Step::Chunk(bytes, held)),
        1 => Just(Step::Join),
        3 => (0_usize..6).prop_map(Step::Read),
        1 => (0_usize..6).prop_map(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn every_listener_hears_the_same_bytes_whenever_it_came(
        steps in prop::collection::vec(step(), 0..60),
        whole in any::<bool>(),
    ) {
        let streams = Streams::default();
        let (carrier, _caller) = streams.join(&key(), fingerprint("a"));
        let live = begin(&carrier);
        let (mut came, mut shown) = (Vec::new(), 0);
        let mut listeners = VecDeque::from([(live.listen(None).unwrap(), Vec::new())]);
        for step in steps {
            match step {
                Step::Chunk(bytes, held) => {
                    came.extend_from_slice(&bytes);
                    shown = came.len().saturating_sub(held).max(shown);
                    live.chunk(&bytes, held);
                }
                Step::Join => listeners.push_back((live.listen(None).unwrap(), Vec::new())),
                Step::Read(which) => {
                    if let Some((listener, heard)) = listeners.get_mut(which) {
                        heard.extend(ready(listener).0);
                        prop_assert_eq!(&heard[..], &came[..shown]);
                    }
                }
                Step::Leave(which) => drop(listeners.remove(which)),
            }
        }
        if whole { carrier.recorded() } else { drop(carrier) }
        for (mut listener, mut heard) in listeners {
            let (rest, end) = ready(&mut listener);
            heard.extend(rest);
            if whole {
                prop_assert_eq!((&heard[..], end), (&came[..], Some(None)));
            } else {
                prop_assert_eq!((&heard[..], end), (&came[..shown], Some(Some(Interrupted::Broken))));
            }
        }
    }
}
