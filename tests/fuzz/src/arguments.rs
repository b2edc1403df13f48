//! Canonical JSON and fingerprints: however arguments are spelled, what means the same has one fingerprint, and what does not
//! has another.

use std::fmt::Write as _;

use settled_protocol::{canonicalize, fingerprint};

use crate::choices::Choices;

/// A value, as it is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Meant {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Array(Vec<Meant>),
    /// In the order of their names, each once.
    Object(Vec<(String, Meant)>),
}

/// ±digits · 10^exponent, without zeros at either end of the digits; zero has none, and no sign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    negative: bool,
    digits: String,
    exponent: i32,
}

impl Number {
    fn new(negative: bool, digits: &str, exponent: i32) -> Number {
        let digits = digits.trim_start_matches('0');
        let kept = digits.trim_end_matches('0');
        if kept.is_empty() {
            return Number { negative: false, digits: String::new(), exponent: 0 };
        }
        let exponent = exponent + i32::try_from(digits.len() - kept.len()).unwrap();
        Number { negative, digits: kept.to_owned(), exponent }
    }

    fn plain(&self) -> String {
        let digits = if self.digits.is_empty() { "0" } else { &self.digits };
        format!("{}{digits}e{}", if self.negative { "-" } else { "" }, self.exponent)
    }

    /// Whether both are the same argument: exactly where a double is too coarse or too small, else as doubles.
    fn is_same(&self, other: &Number) -> bool {
        let double = |number: &Number| number.plain().parse::<f64>().unwrap();
        let (one, two) = (double(self), double(other));
        let exact = |number: &Number, double: f64| {
            const LARGEST: f64 = 9_007_199_254_740_992.0;
            double.abs() > LARGEST
                || double.abs() == LARGEST && number.digits != "9007199254740992"
                || double == 0.0 && !number.digits.is_empty()
        };
        if exact(self, one) || exact(other, two) { self == other } else { one == two }
    }
}

fn is_same(one: &Meant, other: &Meant) -> bool {
    match (one, other) {
        (Meant::Number(one), Meant::Number(other)) => one.is_same(other),
        (Meant::Array(one), Meant::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Meant::Object(one), Meant::Object(other)) => {
            one.len() == other.len()
                && one.iter().zip(other).all(|((name, one), (named, other))| name == named && is_same(one, other))
        }
        (one, other) => one == other,
    }
}

const DIGITS: [&str; 14] = [
    "0",
    "1",
    "2",
    "10",
    "5",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551616",
    "1000000",
    "123456789012345678901234567890",
    "1125",
    "49",
    "9",
];
const EXPONENTS: [i32; 12] = [0, 0, 0, 0, 1, -1, 15, -3, 22, 400, -400, -324];
const TEXTS: [&str; 10] = ["", "a", "b", "A", "é", "e\u{301}", "\u{10348}", "\"\\/", "\u{8}\n\u{1f}", "\u{2028}"];

fn meant(choices: &mut Choices<'_>, depth: usize) -> Meant {
    let kinds = if depth == 0 { 5 } else { 7 };
    match choices.below(kinds) {
        0 => Meant::Null,
        1 => Meant::Bool(choices.once_in(2)),
        2 | 3 => {
            let digits = format!("{}{}", choices.of(&DIGITS), if choices.once_in(4) { "1" } else { "" });
            Meant::Number(Number::new(choices.once_in(4), &digits, *choices.pick(&EXPONENTS)))
        }
        4 => Meant::Text(choices.of(&TEXTS).to_owned()),
        5 => Meant::Array((0..choices.below(4)).map(|_| meant(choices, depth - 1)).collect()),
        _ => {
            let mut members: Vec<(String, Meant)> = Vec::new();
            for _ in 0..choices.below(4) {
                let name = choices.of(&TEXTS).to_owned();
                if members.iter().all(|(other, _)| *other != name) {
                    members.push((name, meant(choices, depth - 1)));
                }
            }
            members.sort();
            Meant::Object(members)
        }
    }
}

/// Changes one thing, or nothing.
fn vary(value: &mut Meant, choices: &mut Choices<'_>) {
    match value {
        Meant::Array(items) if !items.is_empty() && !choices.once_in(4) => {
            let at = choices.below(items.len());
            if choices.once_in(4) {
                items.swap(0, at);
            } else {
                vary(&mut items[at], choices);
            }
        }
        Meant::Object(members) if !members.is_empty() && !choices.once_in(4) => {
            let at = choices.below(members.len());
            // `null` is not absence.
            match choices.below(3) {
                0 => drop(members.remove(at)),
                1 => members[at].1 = Meant::Null,
                _ => vary(&mut members[at].1, choices),
            }
        }
        Meant::Number(number) if !choices.once_in(3) => {
            let digits = format!("{}{}", number.digits, choices.of(&["0", "1", "0000000000000000000001"]));
            let shift = i32::try_from(digits.len() - number.digits.len()).unwrap();
            *number = Number::new(number.negative ^ choices.once_in(5), &digits, number.exponent - shift);
        }
        _ => *value = meant(choices, 1),
    }
}

fn space(choices: &mut Choices<'_>, out: &mut String) {
    out.push_str(choices.of(&["", "", "", " ", "\t\n", "\r"]));
}

fn spell(value: &Meant, choices: &mut Choices<'_>, out: &mut String) {
    space(choices, out);
    match value {
        Meant::Null => out.push_str("null"),
        Meant::Bool(yes) => write!(out, "{yes}").unwrap(),
        Meant::Number(number) => spell_number(number, choices, out),
        Meant::Text(text) => spell_text(text, choices, out),
        Meant::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                spell(item, choices, out);
            }
            space(choices, out);
            out.push(']');
        }
        Meant::Object(members) => {
            let mut members: Vec<&(String, Meant)> = members.iter().collect();
            for _ in 0..members.len() {
                let (one, other) = (choices.below(members.len()), choices.below(members.len()));
                members.swap(one, other);
            }
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                space(choices, out);
                if choices.once_in(8) {
                    // The last one counts.
                    spell_text(name, choices, out);
                    out.push_str(":[1],");
                }
                spell_text(name, choices, out);
                space(choices, out);
                out.push(':');
                spell(value, choices, out);
            }
            out.push('}');
        }
    }
    space(choices, out);
}

fn spell_number(number: &Number, choices: &mut Choices<'_>, out: &mut String) {
    let Number { negative, digits, exponent } = number;
    if digits.is_empty() {
        return out.push_str(choices.of(&["0", "-0", "0.0", "0e5", "-0.00E-7"]));
    }
    out.push_str(if *negative { "-" } else { "" });
    let zeros = "0".repeat(choices.below(3));
    let more = i32::try_from(zeros.len()).unwrap();
    let e = choices.of(&["e", "E"]);
    match choices.below(4) {
        // All of it, where it isn't too long.
        0 if (0..40).contains(exponent) => {
            write!(out, "{digits}{}", "0".repeat(usize::try_from(*exponent).unwrap())).unwrap();
        }
        1 => {
            let (first, rest) = digits.split_at(1);
            let scale = exponent + i32::try_from(rest.len()).unwrap();
            let sign = if scale >= 0 { choices.of(&["", "+"]) } else { "" };
            write!(out, "{first}.{rest}{zeros}0{e}{sign}{scale}").unwrap();
        }
        2 => write!(out, "0.{zeros}{digits}{e}{}", exponent + more + i32::try_from(digits.len()).unwrap()).unwrap(),
        _ => write!(out, "{digits}{zeros}{e}{}", exponent - more).unwrap(),
    }
}

fn spell_text(text: &str, choices: &mut Choices<'_>, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        match char {
            '/' if choices.once_in(2) => out.push_str("\\/"),
            '\n' if choices.once_in(2) => out.push_str("\\n"),
            char if char.is_control() || matches!(char, '"' | '\\') || choices.once_in(4) => {
                let upper = choices.once_in(2);
                for unit in char.encode_utf16(&mut [0; 2]) {
                    if upper { write!(out, "\\u{unit:04X}") } else { write!(out, "\\u{unit:04x}") }.unwrap();
                }
            }
            char => out.push(char),
        }
    }
    out.push('"');
}

/// Two values, mostly nearly the same, in two spellings each.
pub fn spellings(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let one = meant(&mut choices, 3);
    let mut other = one.clone();
    vary(&mut other, &mut choices);
    let mut spelled = |value: &Meant| {
        let mut text = String::new();
        spell(value, &mut choices, &mut text);
        let digest = fingerprint(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
        (text, digest)
    };
    let (text, digest) = spelled(&one);
    let (again, same) = spelled(&one);
    assert_eq!(digest, same, "{text}\n{again}");
    let (text_of_other, other_digest) = spelled(&other);
    assert_eq!(digest == other_digest, is_same(&one, &other), "{text}\n{text_of_other}");
}

/// Any bytes: never a panic, and what has a canonical form is its own.
pub fn any_json(bytes: &[u8]) {
    let is_json = str::from_utf8(bytes).is_ok_and(|text| settled_mcp::fuzzing::valid(text).is_some());
    match canonicalize(bytes) {
        Ok(canonical) => {
            assert!(is_json, "{}", String::from_utf8_lossy(bytes));
            assert_eq!(canonicalize(&canonical).as_ref(), Ok(&canonical));
        }
        Err(error) => assert!(error.offset <= bytes.len(), "{error}"),
    }
}
