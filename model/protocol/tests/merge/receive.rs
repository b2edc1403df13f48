//! What becomes of an operation that arrives, for all that can be said of it.

use settled_protocol::merge::{Arrival, Decision, Fit, Known};

type Decided = Decision<&'static str, &'static str>;
/// What is decided for a device whose schema is not later, and for one whose schema is.
type Row = [Decided; 2];

const NOT_YOURS: Row = [Decision::NotYours; 2];
const CONFLICT: Row = [Decision::Conflict; 2];
const REPEAT: Row = [Decision::Repeat("as before"); 2];
const APPLY: Row = [Decision::Apply; 2];
const HELD_IF_LATER: Row = [Decision::Refuse("not yet"), Decision::Hold("not yet")];
const REFUSE: Row = [Decision::Refuse("never"); 2];

const SAME: Known<&str> = Known::Same("as before");

/// The columns: a change that fits, that may fit later, that never fits.
const TABLE: [(bool, Known<&str>, [Row; 3]); 6] = [
    (false, Known::No, [NOT_YOURS, NOT_YOURS, NOT_YOURS]),
    (false, SAME, [NOT_YOURS, NOT_YOURS, NOT_YOURS]),
    (false, Known::Other, [NOT_YOURS, NOT_YOURS, NOT_YOURS]),
    (true, Known::No, [APPLY, HELD_IF_LATER, REFUSE]),
    (true, SAME, [REPEAT, REPEAT, REPEAT]),
    (true, Known::Other, [CONFLICT, CONFLICT, CONFLICT]),
];

#[test]
fn all_that_can_arrive() {
    for (own, known, rows) in TABLE {
        for (fit, row) in [Fit::Fits, Fit::Later("not yet"), Fit::Never("never")].into_iter().zip(rows) {
            for (newer, decided) in [false, true].into_iter().zip(row) {
                let arrival = Arrival { own, known, fit, newer };
                assert_eq!(arrival.decide(), decided, "{arrival:?}");
            }
        }
    }
}
