//! The abstraction: what of a policy, a record and an event the table keeps apart, and every combination of it.

/// A dimension: where it belongs, its name, its values.
pub type Dim = (&'static str, &'static str, &'static [&'static str]);

macro_rules! dims {
    ($($id:ident = $group:literal $name:literal [$($value:literal)*]),* $(,)?) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum Index { $($id),* }
        $(pub const $id: usize = Index::$id as usize;)*
        /// All dimensions, in the order of the table.
        pub const DIMS: &[Dim] = &[$(($group, $name, &[$($value),*])),*];
    };
}

const NO_YES: usize = 2;

dims! {
    TOOL = "policy" "tool" ["opaque" "read-only" "idempotent" "observable" "sealable" "deduplicates"
        "deduplicates-rejections" "transactional"],
    ERRORS = "policy" "errors" ["doubtful" "final"],
    DELIVERY = "policy" "delivery" ["many" "single"],
    ENDS = "policy" "ends" ["with-window" "on-failure" "on-delivery"],
    PHASE = "state" "phase" ["absent" "created" "dispatched" "unknown" "escalated" "confirmed" "settled"],
    SENT = "state" "sent" ["no" "yes"],
    DOUBT = "state" "doubt" ["no" "yes"],
    CAUSE = "state" "cause" ["open" "error" "refused"],
    QUIET = "state" "quiet" ["no" "yes"],
    VERDICT = "state" "verdict" ["succeeded" "failed" "abandoned"],
    DELIVERED = "state" "delivered" ["no" "yes"],
    WHAT = "event" "what" ["call" "resume" "reply" "lost" "observed" "committed" "alerted" "decide" "cancel" "delivered"
        "expire"],
    OF = "event" "of" ["latest" "earlier" "later" "another-operation"],
    ARGUMENTS = "event" "arguments" ["other" "same"],
    START = "event" "start" ["later" "now"],
    TAKE_OVER = "event" "take-over" ["no" "yes"],
    SENDER_DONE = "event" "sender-done" ["no" "yes"],
    UNDISTURBED = "event" "undisturbed" ["no" "yes"],
    REPLY = "event" "reply" ["result" "not-run" "busy" "unproven"],
    LOSS = "event" "loss" ["timed-out" "connection-lost"],
    SEEN = "event" "seen" ["applied" "not-applied" "sealed-attempts" "sealed-operation" "unclear"],
    CONCLUSIVE = "event" "conclusive" ["no" "yes"],
    OWNER = "event" "owner" ["other" "same"],
    DECISION = "event" "decision" ["succeeded" "failed" "abandoned"],
    ALL_QUIET = "event" "all-quiet" ["no" "yes"],
    // What the event's time and the policy's budgets say, seen from the record.
    BUDGET = "event" "retry-left" ["no" "yes"],
    CHECKS = "event" "checks-left" ["no" "yes"],
    IN_TIME = "event" "within-limit" ["no" "yes"],
    STILL = "event" "settling-over" ["no" "yes"],
    WINDOW = "event" "window-over" ["no" "yes"],
    DUE = "event" "delivery-due" ["no" "yes"],
    BEFORE = "event" "earlier-than-before" ["no" "yes"],
}

/// How many dimensions there are.
pub const N: usize = DIMS.len();

/// One typed pair: in each dimension 0 where it doesn't apply, else 1 + the index of its value.
pub type Point = [u8; N];

/// The name of a point's value.
pub fn value(point: &Point, dim: usize) -> &'static str {
    match point[dim] {
        0 => "",
        index => DIMS[dim].2[usize::from(index) - 1],
    }
}

/// Whether the value is "yes" (or the second of two).
pub fn is_yes(point: &Point, dim: usize) -> bool {
    usize::from(point[dim]) == NO_YES
}

/// All policies.
pub fn policies() -> Vec<Point> {
    [TOOL, ERRORS, DELIVERY, ENDS].iter().fold(vec![[0; N]], |points, dim| every(points, *dim))
}

/// All typed states.
pub fn states() -> Vec<Point> {
    let mut all = Vec::new();
    for phase in every(vec![[0; N]], PHASE) {
        let dims: &[usize] = match value(&phase, PHASE) {
            "dispatched" => &[DOUBT],
            "unknown" => &[DOUBT, CAUSE, QUIET],
            "escalated" => &[DOUBT, CAUSE],
            "confirmed" => &[DOUBT, VERDICT],
            "settled" => &[SENT, DOUBT, VERDICT, DELIVERED],
            _ => &[],
        };
        all.extend(dims.iter().fold(vec![phase], |points, dim| every(points, *dim)));
    }
    all.retain(|p| value(p, PHASE) != "confirmed" || value(p, VERDICT) != "abandoned");
    // Without an attempt there is none in doubt.
    for point in &mut all {
        if value(point, SENT) == "no" {
            point[DOUBT] = 0;
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Every event that is typed for this state (with its policy): attempts are named relative to the record's.
pub fn events(of: &Point) -> Vec<Point> {
    let mut all = Vec::new();
    for what in every(vec![*of], WHAT) {
        let dims: &[usize] = match value(&what, WHAT) {
            "call" => &[ARGUMENTS, START, WINDOW, DUE],
            "resume" => &[TAKE_OVER, SENDER_DONE, UNDISTURBED, BUDGET, IN_TIME, STILL],
            "reply" => &[REPLY, OF, BUDGET],
            "lost" => &[LOSS, OF],
            "observed" => &[SEEN, CONCLUSIVE, OF, BUDGET, CHECKS],
            "committed" => &[OF, OWNER],
            "decide" => &[DECISION, ALL_QUIET],
            "delivered" => &[OF, BEFORE],
            "expire" => &[WINDOW],
            _ => &[],
        };
        all.extend(dims.iter().fold(vec![what], |points, dim| every(points, *dim)));
    }
    let has_attempt = matches!(value(of, PHASE), "dispatched" | "unknown" | "escalated" | "confirmed")
        || value(of, PHASE) == "settled" && value(of, SENT) == "yes";
    all.retain(|p| {
        let applies = match value(p, OF) {
            // A delivery names the operation only.
            "latest" if value(p, WHAT) == "delivered" => value(p, PHASE) != "absent",
            "later" | "earlier" if value(p, WHAT) == "delivered" => false,
            "latest" | "earlier" => has_attempt,
            "later" => value(p, PHASE) != "absent",
            _ => true,
        };
        // No owner can be the record's if there is none.
        applies && (has_attempt || value(p, OWNER) != "same")
    });
    for point in &mut all {
        if !is_yes(point, DELIVERED) {
            point[DUE] = 0;
            point[BEFORE] = 0;
        }
        if value(point, PHASE) == "absent" {
            point[ARGUMENTS] = 0;
            point[WINDOW] = 0;
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn every(points: Vec<Point>, dim: usize) -> Vec<Point> {
    let with = |point: Point, index: u8| {
        let mut point = point;
        point[dim] = index;
        point
    };
    points.into_iter().flat_map(|p| (1..).take(DIMS[dim].2.len()).map(move |index| with(p, index))).collect()
}
