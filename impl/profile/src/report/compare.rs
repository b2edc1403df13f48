//! Profiles side by side: versions of one framework, and before and after a guard.

use super::grid::{Grid, Row, width};
use super::mark::{Kind, Mark, groups, result};
use super::table::field;
use super::words::{count, plain};
use crate::cell::Cell;
use crate::profile::{Profile, Report};

/// The same variant of the same adapter, in all of its versions, alone and behind something.
pub(super) struct Group<'a> {
    adapter: &'a str,
    variant: &'a str,
    pub(super) profiles: Vec<&'a Profile>,
}

/// Profiles of the same variant, side by side, as wide as the terminal: first the cells in which they differ, then what that
/// comes to.
#[must_use]
pub fn compare(reports: &[Report]) -> String {
    compare_in(reports, width())
}

/// The same, at most this wide.
#[must_use]
pub fn compare_in(reports: &[Report], width: usize) -> String {
    let groups = by_variant(reports);
    let comparable: Vec<_> = groups.iter().filter(|group| group.profiles.len() > 1).collect();
    if comparable.is_empty() {
        return "No variant was measured more than once: there is nothing to compare. Run it in another version \
                (`settled profile install NAME@VERSION`), or with `--behind settled`."
            .to_owned();
    }
    let mut parts: Vec<_> = comparable.iter().map(|group| group.text(width)).collect();
    let alone: Vec<_> = groups.iter().filter(|group| group.profiles.len() == 1).map(Group::name).collect();
    if !alone.is_empty() {
        parts.push(format!("Measured only once: {}.", alone.join(", ")));
    }
    parts.extend(before_and_after(&groups));
    parts.join("\n\n")
}

/// Profiles by variant, in the order in which these come.
pub(super) fn by_variant(reports: &[Report]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for profile in reports.iter().flat_map(|report| &report.profiles) {
        let same = |group: &&mut Group<'_>| group.adapter == profile.adapter && group.variant == profile.variant;
        match groups.iter_mut().find(same) {
            Some(group) => group.profiles.push(profile),
            None => {
                groups.push(Group { adapter: &profile.adapter, variant: &profile.variant, profiles: vec![profile] })
            }
        }
    }
    groups
}

/// The kinds of outcome of a cell, whatever their counts; `None` if its fault never struck.
fn kinds(profile: &Profile, cell: Cell) -> Option<Vec<Kind>> {
    let mark = Mark::of(result(profile, cell)?);
    let mut kinds: Vec<_> = mark.counts.iter().map(|(kind, _)| *kind).collect();
    kinds.sort();
    (!kinds.is_empty()).then_some(kinds)
}

impl Group<'_> {
    pub(super) fn name(&self) -> String {
        plain(&format!("{}/{}", self.adapter, self.variant))
    }

    /// The cells that any of its profiles has.
    pub(super) fn cells(&self) -> Vec<Cell> {
        groups(self.profiles.iter().copied()).flat_map(|(_, cells)| cells).collect()
    }

    /// Whether a cell's profiles ended in different kinds. What was not tried everywhere is no difference.
    pub(super) fn differs(&self, cell: Cell) -> bool {
        let mut each = self.profiles.iter().filter_map(|profile| kinds(profile, cell));
        each.next().is_some_and(|first| each.any(|other| other != first))
    }

    fn text(&self, width: usize) -> String {
        let cells = self.cells();
        let differing: Vec<_> = cells.iter().copied().filter(|cell| self.differs(*cell)).collect();
        let alike = cells.len() - differing.len();
        let title = format!("{}: {}", self.name(), plain(&self.profiles[0].framework));
        if differing.is_empty() {
            return format!("{title}\nNone of {} differs.", count(cells.len(), "cell"));
        }
        let row = |cell: &Cell| Row {
            name: cell.name().to_owned(),
            fields: self.profiles.iter().map(|profile| field(profile, *cell)).collect(),
        };
        let head = |profile: &&Profile| match &profile.behind {
            Some(behind) => format!("{}\nbehind {}", plain(&profile.version), plain(behind)),
            None => plain(&profile.version),
        };
        let grid = Grid {
            corner: "cell".to_owned(),
            heads: self.profiles.iter().map(head).collect(),
            rows: differing.iter().map(row).collect(),
        };
        let (differ, verb) = (count(differing.len(), "cell"), if differing.len() == 1 { "s" } else { "" });
        format!("{title}\n{}\n{differ} differ{verb}, {alike} alike.", grid.text(width))
    }
}

/// Pairs of the same version, alone and behind something.
fn pairs<'a>(groups: &'a [Group<'_>]) -> impl Iterator<Item = (&'a Profile, &'a Profile)> {
    groups.iter().flat_map(|group| {
        let alone = group.profiles.iter().filter(|profile| profile.behind.is_none());
        alone.flat_map(move |before| {
            let behind =
                group.profiles.iter().filter(|after| after.behind.is_some() && after.version == before.version);
            behind.map(move |after| (*before, *after))
        })
    })
}

/// What a change is called, whether a cell's kinds before and behind show it, and where that was seen.
struct Change {
    name: &'static str,
    shows: fn(&[Kind], &[Kind]) -> bool,
    /// The cells of each variant.
    seen: Vec<(String, Vec<&'static str>)>,
}

impl Change {
    const fn of(name: &'static str, shows: fn(&[Kind], &[Kind]) -> bool) -> Self {
        Self { name, shows, seen: Vec::new() }
    }

    fn see(&mut self, profile: &Profile, cell: Cell, was: &[Kind], is: &[Kind]) {
        if !(self.shows)(was, is) {
            return;
        }
        let variant = plain(&format!("{}/{}", profile.adapter, profile.variant));
        match self.seen.last_mut() {
            Some((its, cells)) if *its == variant => cells.push(cell.name()),
            _ => self.seen.push((variant, vec![cell.name()])),
        }
    }

    fn count(&self) -> usize {
        self.seen.iter().map(|(_, cells)| cells.len()).sum()
    }
}

fn is_new(kind: Kind, was: &[Kind], is: &[Kind]) -> bool {
    is.contains(&kind) && !was.contains(&kind)
}

/// What became of the duplicates behind a guard, and whether anything was newly lost, stuck or given up.
pub(super) fn before_and_after(groups: &[Group<'_>]) -> Option<String> {
    let mut changes = [
        Change::of("still duplicate", |was, is| was.contains(&Kind::Duplicate) && is.contains(&Kind::Duplicate)),
        Change::of("newly duplicate", |was, is| is_new(Kind::Duplicate, was, is)),
        Change::of("newly lost", |was, is| is_new(Kind::Lost, was, is)),
        Change::of("newly stuck", |was, is| is_new(Kind::Stuck, was, is)),
        Change::of("newly given up", |was, is| is_new(Kind::Error, was, is)),
    ];
    let (mut tried, mut before_twice, mut after_twice) = (0, 0, 0);
    let mut behind_what = None;
    for (before, after) in pairs(groups) {
        behind_what = behind_what.or(after.behind.as_deref());
        for cell in Cell::ALL {
            let (Some(was), Some(is)) = (kinds(before, *cell), kinds(after, *cell)) else { continue };
            tried += 1;
            before_twice += usize::from(was.contains(&Kind::Duplicate));
            after_twice += usize::from(is.contains(&Kind::Duplicate));
            changes.iter_mut().for_each(|change| change.see(after, *cell, &was, &is));
        }
    }
    let guard = plain(behind_what?);
    let newly: Vec<_> = changes.iter().skip(1).map(|change| format!("{} {}", change.count(), change.name)).collect();
    let mut text = format!(
        "Of {} tried before and behind {guard}: {before_twice} duplicate before, {after_twice} behind {guard}; {}.",
        count(tried, "cell"),
        newly.join(", ")
    );
    for change in changes.iter().filter(|change| !change.seen.is_empty()) {
        text += &format!("\n{}:", change.name);
        for (variant, cells) in &change.seen {
            text += &format!("\n  {variant}: {}", cells.join(", "));
        }
    }
    Some(text)
}
