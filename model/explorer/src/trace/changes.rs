//! What changed in a list of lines.

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It was there before.
    Kept,
    /// It was not there before.
    New,
    /// It was there before and is not any more.
    Gone,
}

/// The lines of `now`, in order, then those that are gone. A line that is there twice counts twice.
pub(super) fn changes<'a>(before: &'a [String], now: &'a [String]) -> Vec<(Change, &'a str)> {
    let mut left: Vec<&str> = before.iter().map(String::as_str).collect();
    let mut lines = Vec::with_capacity(now.len());
    for line in now {
        let was = left.iter().position(|was| was == line);
        if let Some(at) = was {
            left.remove(at);
        }
        lines.push((if was.is_some() { Change::Kept } else { Change::New }, line.as_str()));
    }
    lines.extend(left.into_iter().map(|line| (Change::Gone, line)));
    lines
}
