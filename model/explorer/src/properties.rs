//! The properties of the design, by name.

use serde::{Deserialize, Serialize};

macro_rules! properties {
    ($($variant:ident $name:literal $says:literal $means:literal,)*) => {
        /// A named property. Each is documented by what it says: see [`PropertyName::says`] and [`PropertyName::means`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        #[repr(u8)]
        pub enum PropertyName {
            $(#[doc = $says] $variant,)*
        }

        impl PropertyName {
            /// All of them, in the design's order.
            pub const ALL: &'static [PropertyName] = &[$(PropertyName::$variant,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(PropertyName::$variant => $name,)*
                }
            }

            /// What it says, in one clause.
            pub fn says(self) -> &'static str {
                match self {
                    $(PropertyName::$variant => $says,)*
                }
            }

            /// How the model decides it.
            pub fn means(self) -> &'static str {
                match self {
                    $(PropertyName::$variant => $means,)*
                }
            }
        }
    };
}

properties! {
    AtMostOnce "at-most-once" "no operation has two effects"
        "In no reachable state were two effects made for one logical call.",
    NoPhantomSuccess "no phantom success" "told `done` implies the effect happened"
        "Whenever a caller is told `done`, the effect that the answer names has been made.",
    NoFalseFailure "no false failure" "told `failed` implies no effect has happened and none will"
        "No attempt of an operation that a caller was told had failed has taken effect, then or later.",
    FaithfulReplay "faithful replay" "every answer to one key is the first outcome; other arguments get a conflict"
        "Two definite answers to one wish under one key are equal, and nobody is told the outcome of other arguments.",
    NoSuppression "no suppression" "two wishes never share one effect"
        "Nobody is told `done` on the strength of an effect that was made for another logical call.",
    IntentFirst "intent first" "no effect without a durable record of it from before the send"
        "At the moment of each effect, its attempt was recorded durably when it was sent. Said of guards only.",
    UnknownBlocks "unknown blocks" "of one operation, at most one attempt has been applied or still can be"
        "In every state. Not said of tools that deduplicate, change nothing, or may be applied again: those may be sent again.",
    NoOverlap "no overlap" "two effects on one resource never overlap"
        "The tool never works on two requests for one resource at once. Said where effects last and share a resource.",
    Convergence "convergence" "replicas that have seen the same operations are equal, whatever the order, the duplicates, the clocks"
        "In every state, any two replicas that hold the same set of operations show the same value; where the server corrects event times, a device that has not heard of them does not hold the same yet. Said of devices.",
    CausalRespect "causal respect" "an update made after seeing another wins over it, whatever the clocks"
        "No replica that holds both shows the earlier of two updates of which one was made after seeing the other. Said of devices.",
    Settles "settles" "once faults stop, every operation ends settled or escalated"
        "From every reachable state, every weakly fair run without further faults ends with all operations settled or escalated: it neither stops before nor goes round for ever.",
    CanSettle "can always settle" "from every state, every operation can still end settled or escalated without a fault"
        "From every reachable state a state with all operations settled or escalated can be reached by moves that are no faults.",
    BoundedRetries "bounded retries" "no operation and no fleet exceeds its retry budget"
        "No logical call is sent to the tool more often than `budget.operation`, nor all of them together more often than `budget.fleet`. Said where a budget is given.",
    BoundedMemory "bounded memory" "after retention no record remains, and no late duplicate slips in"
        "Once nothing happens any more and `budget.memory` has passed since the last record was settled, none remains; and no effect is made for a call whose record was forgotten. Said where `budget.memory` is given.",
}

/// A set of properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PropertySet(u16);

impl PropertySet {
    /// None.
    pub const NONE: PropertySet = PropertySet(0);

    /// With this one as well, if `when`.
    #[must_use]
    pub fn with(self, property: PropertyName, when: bool) -> PropertySet {
        PropertySet(self.0 | u16::from(when) << property as u16)
    }

    /// Whether it holds this one.
    pub fn has(self, property: PropertyName) -> bool {
        self.0 & 1 << property as u16 != 0
    }

    /// Whether it holds none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All that are in either.
    #[must_use]
    pub fn or(self, other: PropertySet) -> PropertySet {
        PropertySet(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(self, other: PropertySet) -> PropertySet {
        PropertySet(self.0 & other.0)
    }

    /// Those that are not in the other.
    #[must_use]
    pub fn without(self, other: PropertySet) -> PropertySet {
        PropertySet(self.0 & !other.0)
    }

    /// Its members, in the design's order.
    pub fn iter(self) -> impl Iterator<Item = PropertyName> {
        PropertyName::ALL.iter().copied().filter(move |property| self.has(*property))
    }
}

impl FromIterator<PropertyName> for PropertySet {
    fn from_iter<I: IntoIterator<Item = PropertyName>>(properties: I) -> Self {
        properties.into_iter().fold(PropertySet::NONE, |all, property| all.with(property, true))
    }
}
