//! What the server does with an operation that arrives.

/// What is known of an operation's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known<A> {
    /// Nothing.
    No,
    /// This very operation came before, was applied or refused, and had this answer.
    Same(A),
    /// Another operation has it.
    Other,
}

/// What the server's schema says of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fit<W> {
    /// It can be applied.
    Fits,
    /// There is no such target or field, and a later schema may have it. Why, in words.
    Later(W),
    /// No later schema can allow it. Why, in words.
    Never(W),
}

/// An operation that arrives, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Arrival<A, W> {
    /// It is of the device that sends it.
    pub own: bool,
    /// What is known of its name.
    pub known: Known<A>,
    /// What the schema says of its change.
    pub fit: Fit<W>,
    /// The device's schema is later than the server's.
    pub newer: bool,
}

/// What is done with an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision<A, W> {
    /// It is refused, and nothing is recorded: its own device may still send it.
    NotYours,
    /// It is refused, and nothing is recorded: the name stays that of the other operation.
    Conflict,
    /// It is answered as it was the first time.
    Repeat(A),
    /// It is applied; that is recorded with the effect.
    Apply,
    /// It is neither applied nor refused, and nothing is recorded: its device keeps it, and sends it again.
    Hold(W),
    /// It is refused for good; that is recorded.
    Refuse(W),
}

impl<A, W> Arrival<A, W> {
    /// What is done with it:
    ///
    /// | of the sender | its name | its change | the device's schema | so |
    /// | --- | --- | --- | --- | --- |
    /// | no | | | | [`NotYours`](Decision::NotYours) |
    /// | yes | another operation's | | | [`Conflict`](Decision::Conflict) |
    /// | yes | known | | | [`Repeat`](Decision::Repeat) |
    /// | yes | new | fits | | [`Apply`](Decision::Apply) |
    /// | yes | new | may fit later | later | [`Hold`](Decision::Hold) |
    /// | yes | new | may fit later | not later | [`Refuse`](Decision::Refuse) |
    /// | yes | new | never fits | | [`Refuse`](Decision::Refuse) |
    ///
    /// What was decided is not decided again: a repeat has its answer even if another schema came in between.
    pub fn decide(self) -> Decision<A, W> {
        match (self.own, self.known, self.fit, self.newer) {
            (false, _, _, _) => Decision::NotYours,
            (true, Known::Other, _, _) => Decision::Conflict,
            (true, Known::Same(answer), _, _) => Decision::Repeat(answer),
            (true, Known::No, Fit::Fits, _) => Decision::Apply,
            (true, Known::No, Fit::Later(why), true) => Decision::Hold(why),
            (true, Known::No, Fit::Later(why), false) => Decision::Refuse(why),
            (true, Known::No, Fit::Never(why), _) => Decision::Refuse(why),
        }
    }
}
