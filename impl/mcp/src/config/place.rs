//! Where a problem is, and the checks that all tables share.

use std::ops::Range;
use std::time::Duration;

use toml::Spanned;

use super::{Wrong, span};

/// A table of the file: its name, and where it is.
pub(super) struct Table {
    name: String,
    whole: Range<usize>,
}

/// A member's name, and where it stands if it is there.
pub(super) type Member = (&'static str, Option<Range<usize>>);

/// A member's name and place.
pub(super) fn member<T>(name: &'static str, value: &Option<Spanned<T>>) -> Member {
    (name, value.as_ref().map(Spanned::span))
}

impl Table {
    pub(super) fn new(name: impl Into<String>, whole: Range<usize>) -> Table {
        Table { name: name.into(), whole }
    }

    /// The table's own name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A problem with the table as a whole.
    pub(super) fn whole(&self, problem: impl Into<String>) -> Wrong {
        Wrong::new(self.whole.clone(), self.name.clone(), problem)
    }

    /// A member's full name.
    pub(super) fn field(&self, member: &str) -> String {
        format!("{}.{member}", self.name)
    }

    /// A problem with a member.
    pub(super) fn wrong(&self, at: Range<usize>, member: &str, problem: impl Into<String>) -> Wrong {
        Wrong::new(at, self.field(member), problem)
    }

    /// A problem with what is not there, or with all of it.
    pub(super) fn lacks(&self, member: &str, problem: impl Into<String>) -> Wrong {
        self.wrong(self.whole.clone(), member, problem)
    }

    /// Refuses the first of these that is there.
    pub(super) fn refuse(&self, members: impl IntoIterator<Item = Member>, problem: &str) -> Result<(), Wrong> {
        match members.into_iter().find_map(|(name, place)| Some((name, place?))) {
            Some((name, place)) => Err(self.wrong(place, name, problem)),
            None => Ok(()),
        }
    }

    /// A span of time, if it is there.
    pub(super) fn span(&self, name: &str, value: &Option<Spanned<String>>) -> Result<Option<Duration>, Wrong> {
        value.as_ref().map(|value| span(&self.field(name), value)).transpose()
    }

    /// A number of at least one, if it is there.
    pub(super) fn count(&self, name: &str, value: &Option<Spanned<u32>>) -> Result<Option<u32>, Wrong> {
        match value {
            Some(count) if *count.get_ref() == 0 => Err(self.wrong(count.span(), name, "must be at least 1")),
            Some(count) => Ok(Some(*count.get_ref())),
            None => Ok(None),
        }
    }

    /// A text that is not empty, if it is there.
    pub(super) fn text(&self, name: &str, value: Option<Spanned<String>>, what: &str) -> Result<Option<String>, Wrong> {
        match value {
            Some(text) if text.get_ref().is_empty() => {
                Err(self.wrong(text.span(), name, format!("is empty: name {what}")))
            }
            other => Ok(other.map(Spanned::into_inner)),
        }
    }
}
