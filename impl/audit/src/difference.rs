//! What has changed, in words, and as a measure by which the effects of different calls can be compared.

use std::collections::{BTreeMap, VecDeque};

use crate::answer::short;
use crate::state::{Change, Item, Kind, without_numbers};
use crate::template::Fresh;

/// More changes than these are counted, not told.
const MOST_TOLD: usize = 4;

/// The changes, a line each.
pub(crate) fn told(changes: &[Change<'_>]) -> Vec<String> {
    let mut told: Vec<String> = changes.iter().take(MOST_TOLD).map(tell).collect();
    if changes.len() > MOST_TOLD {
        told.push(format!("and {} more", changes.len() - MOST_TOLD));
    }
    told
}

fn tell(change: &Change<'_>) -> String {
    let name = short(change.name, 100);
    match (change.before, change.after) {
        (None, Some(item)) => match item.kind {
            Kind::Value => format!("new: {name}{}", excerpt(item.lines.as_deref().unwrap_or_default())),
            Kind::Directory => format!("new: {name}"),
            Kind::File | Kind::Table => format!("new: {name} ({})", amount(item)),
        },
        (Some(_), None) => format!("gone: {name}"),
        (Some(before), Some(after)) => {
            let (gone, come) = lines(before, after);
            let how = match (gone.len(), come.len()) {
                _ if after.kind == Kind::Value => format!("was{}, is{}", excerpt(&gone), excerpt(&come)),
                (0, 0) => format!("{} → {}", amount(before), amount(after)),
                (0, come_count) => format!("{} added{}", units(after, come_count), excerpt(&come)),
                (gone_count, 0) => format!("{} removed{}", units(before, gone_count), excerpt(&gone)),
                (gone_count, come_count) => {
                    format!("{} replaced by {}{}", units(before, gone_count), come_count, excerpt(&come))
                }
            };
            format!("{name}: {how}")
        }
        (None, None) => name,
    }
}

fn amount(item: &Item) -> String {
    match item.kind {
        Kind::Table => format!("{} rows", item.size),
        _ => format!("{} bytes", item.size),
    }
}

fn units(item: &Item, count: usize) -> String {
    let unit = if item.kind == Kind::Table { "row" } else { "line" };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

fn excerpt(lines: &[String]) -> String {
    lines.first().map(|line| format!(" `{}`", short(line, 60))).unwrap_or_default()
}

/// The lines that are in one and not in the other, each as often as it is: those that are gone, and those that have come.
fn lines(before: &Item, after: &Item) -> (Vec<String>, Vec<String>) {
    let (Some(old), Some(new)) = (&before.lines, &after.lines) else {
        return (Vec::new(), Vec::new());
    };
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in old {
        *counts.entry(line).or_default() -= 1;
    }
    for line in new {
        *counts.entry(line).or_default() += 1;
    }
    let pick = |lines: &[String], sign: i64| {
        let mut left = counts.clone();
        let mut picked = Vec::new();
        // From the end: what is appended is what differs.
        for line in lines.iter().rev() {
            if let Some(count) = left.get_mut(line.as_str())
                && *count * sign > 0
            {
                *count -= sign;
                picked.push(line.clone());
            }
        }
        picked.reverse();
        picked
    };
    (pick(old, -1), pick(new, 1))
}

/// What changes amount to, whatever they were called with: for each thing that changed, what came and went. Two calls that do the
/// same to different records have the same measure; twice the effect is twice the measure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure(BTreeMap<String, BTreeMap<String, i64>>);

impl Measure {
    /// So many times as much.
    pub(crate) fn times(&self, times: usize) -> Measure {
        let times = i64::try_from(times).unwrap_or(i64::MAX);
        let scale = |parts: &BTreeMap<String, i64>| {
            parts.iter().map(|(part, count)| (part.clone(), count.saturating_mul(times))).collect()
        };
        Measure(self.0.iter().map(|(name, parts)| (name.clone(), scale(parts))).collect())
    }

    /// How much it is in all.
    pub(crate) fn weight(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).map(|count| count.unsigned_abs()).fold(0, u64::saturating_add)
    }
}

/// The measure of changes made by calls with these fresh words.
pub(crate) fn measure(changes: &[Change<'_>], fresh: &[Fresh]) -> Measure {
    let mut measure = Measure::default();
    let strip = |text: &str| fresh.iter().fold(text.to_owned(), |text, fresh| fresh.strip(&text));
    let shape = |text: &str| without_numbers(&strip(text));
    for change in changes {
        let parts = measure.0.entry(shape(change.name)).or_default();
        let mut add = |part: String, count: i64| *parts.entry(part).or_default() += count;
        match (change.before, change.after) {
            (Some(before), Some(after)) => {
                let (gone, come) = lines(before, after);
                let stripped = |lines: Vec<String>| lines.iter().map(|line| strip(line)).collect::<Vec<_>>();
                grown(&stripped(gone), &stripped(come)).into_iter().for_each(|(part, by)| add(part, by));
                if before.lines.is_none() || after.lines.is_none() {
                    let size = |item: &Item| i64::try_from(item.size).unwrap_or(i64::MAX);
                    add("size".to_owned(), size(after) - size(before));
                }
            }
            (None, Some(item)) => add(format!("new {}", shape(&joined(item))), 1),
            (Some(_), None) => add("gone".to_owned(), 1),
            (None, None) => {}
        }
        parts.retain(|_, count| *count != 0);
    }
    measure
}

fn joined(item: &Item) -> String {
    item.lines.as_deref().map(|lines| lines.join("\n")).unwrap_or_default()
}

/// What has come and gone, line by line. Lines that differ in nothing but numbers are one line in which a number has grown.
fn grown(gone: &[String], come: &[String]) -> Vec<(String, i64)> {
    let mut old: BTreeMap<String, VecDeque<(&String, Vec<i64>)>> = BTreeMap::new();
    for line in gone {
        let (form, numbers) = numbers(line);
        old.entry(form).or_default().push_back((line, numbers));
    }
    let mut grown = Vec::new();
    for line in come {
        let (form, new) = numbers(line);
        match old.get_mut(&form).and_then(VecDeque::pop_front) {
            Some((_, old)) => {
                let pairs = old.iter().zip(&new).enumerate();
                grown.extend(pairs.map(|(at, (old, new))| (format!("{form} {at}"), new.wrapping_sub(*old))));
            }
            None => grown.push((without_numbers(line), 1)),
        }
    }
    grown.extend(old.into_values().flatten().map(|(line, _)| (without_numbers(line), -1)));
    grown
}

/// A line's numbers, and the line without them.
fn numbers(line: &str) -> (String, Vec<i64>) {
    let (mut shape, mut numbers, mut digits) = (String::new(), Vec::new(), String::new());
    for letter in line.chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        if !digits.is_empty() {
            numbers.push(digits.parse().unwrap_or(i64::MAX));
            digits.clear();
            shape.push('#');
        }
        shape.push(letter);
    }
    (shape, numbers)
}
