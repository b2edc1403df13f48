//! The canonical form of a JSON document: RFC 8785 (JSON Canonicalization Scheme), with numbers kept apart that
//! RFC 8785 would merge.
//!
//! Two documents have the same canonical form exactly when they mean the same arguments: white space, member order,
//! the spelling of escapes and of numbers (`1`, `1.0`, `1e0`) do not count.
//!
//! # Numbers
//!
//! A number goes through an IEEE 754 double and is written as ECMAScript's `Number::toString` writes it; `-0` is `0`.
//! RFC 8785 does that with every number and so merges account 9007199254740993 with account 9007199254740992. Here the
//! exact value is kept, in the same notation, wherever a double is too coarse or too small to hold it:
//!
//! * every number, integer or not, with a magnitude above 2^53, those beyond a double (`1e400`) included;
//! * every number other than zero that a double would round to zero (`1e-400`).
//!
//! # Strings and names
//!
//! Members are ordered by the UTF-16 code units of their names. Of members with the same name the last one counts, as
//! in JavaScript, Python and serde. Text is not normalised: `é` and `e` + U+0301 differ. The escape of a lone surrogate
//! (`\ud800`) is accepted and written as that escape in lower case, so different surrogates stay different.

use alloc::{format, string::String, vec::Vec};
use core::cmp::Ordering;

/// How many arrays and objects may be open at once.
pub const MAX_DEPTH: usize = 128;

/// The largest decimal exponent, of either sign, of a number in scientific notation. Zero is accepted with any exponent.
pub const MAX_EXPONENT: i64 = 1_000_000_000_000_000_000;

/// Why a document has no canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not usable as JSON: {reason} (at byte {offset})")]
pub struct CanonicalError {
    /// Where in the document the reason was met, in bytes from its start; the document's length if it ends too early.
    pub offset: usize,
    /// What is wrong there.
    pub reason: Reason,
}

/// What is wrong with a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The bytes are not UTF-8.
    #[error("the bytes are not UTF-8; encode the document as UTF-8")]
    NotUtf8,
    /// The document starts with a byte order mark.
    #[error("a byte order mark is not part of JSON; leave it out")]
    ByteOrderMark,
    /// The document ends inside a value, or is empty.
    #[error("the document ends where {0} should follow; send it whole")]
    Incomplete(&'static str),
    /// Something else stands where the grammar wants what is named.
    #[error("{0} should stand here")]
    Expected(&'static str),
    /// A control character stands unescaped in a string.
    #[error("a control character in a string must be escaped")]
    ControlCharacter,
    /// A backslash is not followed by an escape that JSON knows.
    #[error("not a JSON escape; write a backslash itself as two")]
    Escape,
    /// A number starts with a zero and goes on with digits.
    #[error("a number must not start with a superfluous zero")]
    LeadingZero,
    /// Something follows the document.
    #[error("something follows the document; send one document only")]
    TrailingData,
    /// More than [`MAX_DEPTH`] arrays and objects are open.
    #[error("more than {MAX_DEPTH} arrays and objects are nested; flatten the document")]
    TooDeep,
    /// The number's decimal exponent is beyond [`MAX_EXPONENT`].
    #[error("the number's exponent is beyond ±{MAX_EXPONENT}; send such a number as a string")]
    Exponent,
}

/// The canonical form of a JSON document, as UTF-8. See the [module](self) for what it keeps apart and what not.
///
/// Canonicalizing a canonical form changes nothing.
///
/// # Errors
///
/// [`CanonicalError`] if the bytes are not one strict JSON document in UTF-8, nest deeper than [`MAX_DEPTH`], or
/// contain a number beyond [`MAX_EXPONENT`].
pub fn canonicalize(json: &[u8]) -> Result<Vec<u8>, CanonicalError> {
    let text = core::str::from_utf8(json)
        .map_err(|error| CanonicalError { offset: error.valid_up_to(), reason: Reason::NotUtf8 })?;
    let parser = Parser { text, at: 0, out: Vec::with_capacity(json.len()) };
    parser.document()
}

/// An array or object whose end has not been met.
enum Open {
    Array,
    Object(Object),
}

/// An open object. Its members stand in the output from `start` on, in the order met and without punctuation between
/// them, until its end puts them in order.
struct Object {
    start: usize,
    members: Vec<Member>,
}

/// A member: its name in UTF-16 and the range of `"name":value` in the output.
struct Member {
    name: Vec<u16>,
    start: usize,
    end: usize,
}

/// Reads the text once and writes as it goes. Nesting is kept in a vector, not on the call stack.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    out: Vec<u8>,
}

impl<'a> Parser<'a> {
    fn document(mut self) -> Result<Vec<u8>, CanonicalError> {
        if self.text.starts_with('\u{feff}') {
            return Err(self.error(Reason::ByteOrderMark));
        }
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'{' | b'[') if open.len() == MAX_DEPTH => {
                    return Err(self.error(Reason::TooDeep));
                }
                Some(b'[') => {
                    self.at += 1;
                    self.out.push(b'[');
                    self.skip_space();
                    if !self.eat(b']') {
                        open.push(Open::Array);
                        continue;
                    }
                    self.out.push(b']');
                }
                Some(b'{') => {
                    self.at += 1;
                    self.skip_space();
                    if !self.eat(b'}') {
                        let mut object = Object { start: self.out.len(), members: Vec::new() };
                        self.name(&mut object)?;
                        open.push(Open::Object(object));
                        continue;
                    }
                    self.out.extend_from_slice(b"{}");
                }
                Some(b'"') => {
                    let units = self.string()?;
                    write_string(&mut self.out, &units);
                }
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(b't') => self.literal("true")?,
                Some(b'f') => self.literal("false")?,
                Some(b'n') => self.literal("null")?,
                _ => return Err(self.expected("a value")),
            }
            // A value is complete: end what ends with it, until another value is due.
            loop {
                self.skip_space();
                match open.pop() {
                    None if self.at == self.text.len() => return Ok(self.out),
                    None => return Err(self.error(Reason::TrailingData)),
                    Some(Open::Array) => {
                        if self.eat(b',') {
                            self.out.push(b',');
                            open.push(Open::Array);
                            break;
                        }
                        if !self.eat(b']') {
                            return Err(self.expected("a comma or ]"));
                        }
                        self.out.push(b']');
                    }
                    Some(Open::Object(mut object)) => {
                        if let Some(member) = object.members.last_mut() {
                            member.end = self.out.len();
                        }
                        if self.eat(b',') {
                            self.skip_space();
                            self.name(&mut object)?;
                            open.push(Open::Object(object));
                            break;
                        }
                        if !self.eat(b'}') {
                            return Err(self.expected("a comma or }"));
                        }
                        self.end_object(object);
                    }
                }
            }
        }
    }

    /// Reads a member's name and colon and starts the member.
    fn name(&mut self, object: &mut Object) -> Result<(), CanonicalError> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a member's name in double quotes"));
        }
        let start = self.out.len();
        let name = self.string()?;
        write_string(&mut self.out, &name);
        self.skip_space();
        if !self.eat(b':') {
            return Err(self.expected("a colon"));
        }
        self.out.push(b':');
        object.members.push(Member { name, start, end: start });
        Ok(())
    }

    /// Puts the members in order and drops those that a later one of the same name replaces.
    fn end_object(&mut self, object: Object) {
        let Object { start, mut members } = object;
        let body = self.out.split_off(start);
        // Stable, so the last of several members with one name stays the last.
        members.sort_by(|a, b| a.name.cmp(&b.name));
        self.out.push(b'{');
        let mut members = members.iter().peekable();
        while let Some(member) = members.next() {
            if members.peek().is_some_and(|next| next.name == member.name) {
                continue;
            }
            self.out.extend_from_slice(&body[member.start - start..member.end - start]);
            if members.peek().is_some() {
                self.out.push(b',');
            }
        }
        self.out.push(b'}');
    }

    fn literal(&mut self, word: &'static str) -> Result<(), CanonicalError> {
        for byte in word.bytes() {
            if !self.eat(byte) {
                return Err(self.expected(word));
            }
        }
        self.out.extend_from_slice(word.as_bytes());
        Ok(())
    }

    /// Reads a string into UTF-16, which can hold the lone surrogates that escapes can spell.
    fn string(&mut self) -> Result<Vec<u16>, CanonicalError> {
        let text = self.text;
        let mut units = Vec::new();
        self.at += 1;
        loop {
            let rest = text.get(self.at..).unwrap_or_default();
            let Some(char) = rest.chars().next() else {
                return Err(self.expected("the string's closing quote"));
            };
            match char {
                '"' => {
                    self.at += 1;
                    return Ok(units);
                }
                '\\' => {
                    let Some((unit, length)) = escape(rest.as_bytes()) else {
                        return Err(self.error(Reason::Escape));
                    };
                    units.push(unit);
                    self.at += length;
                }
                '\0'..='\x1f' => return Err(self.error(Reason::ControlCharacter)),
                char => {
                    units.extend_from_slice(char.encode_utf16(&mut [0; 2]));
                    self.at += char.len_utf8();
                }
            }
        }
    }

    fn number(&mut self) -> Result<(), CanonicalError> {
        let start = self.at;
        let negative = self.eat(b'-');
        let whole = self.digits()?;
        if whole.len() > 1 && whole.starts_with('0') {
            self.at -= whole.len();
            return Err(self.error(Reason::LeadingZero));
        }
        let fraction = if self.eat(b'.') { self.digits()? } else { "" };
        let mut exponent = 0;
        if self.eat(b'e') || self.eat(b'E') {
            let down = self.eat(b'-');
            if !down {
                self.eat(b'+');
            }
            // Far beyond any length of digits that could bring it back into bounds, so it may stop growing there.
            const CEILING: i128 = 1 << 100;
            for digit in self.digits()?.bytes() {
                exponent = (exponent * 10 + i128::from(digit - b'0')).min(CEILING);
            }
            if down {
                exponent = -exponent;
            }
        }
        let digits = [whole, fraction].concat();
        let significant = digits.trim_start_matches('0');
        if significant.is_empty() {
            self.out.push(b'0');
            return Ok(());
        }
        let zeros = digits.len() - significant.len();
        let exponent = exponent + whole.len() as i128 - 1 - zeros as i128;
        let exponent =
            i64::try_from(exponent).ok().filter(|exponent| (-MAX_EXPONENT..=MAX_EXPONENT).contains(exponent));
        let Some(exponent) = exponent else {
            self.at = start;
            return Err(self.error(Reason::Exponent));
        };
        if negative {
            self.out.push(b'-');
        }
        let exact = Decimal { digits: significant.trim_end_matches('0').into(), exponent };
        exact.normal().write(&mut self.out);
        Ok(())
    }

    /// Reads one digit or more.
    fn digits(&mut self) -> Result<&'a str, CanonicalError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if start == self.at {
            return Err(self.expected("a digit"));
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn error(&self, reason: Reason) -> CanonicalError {
        CanonicalError { offset: self.at, reason }
    }

    fn expected(&self, what: &'static str) -> CanonicalError {
        self.error(match self.peek() {
            Some(_) => Reason::Expected(what),
            None => Reason::Incomplete(what),
        })
    }
}

/// The UTF-16 unit that the escape at the head of `rest` stands for, and the escape's length in bytes.
fn escape(rest: &[u8]) -> Option<(u16, usize)> {
    let unit = match rest.get(1)? {
        byte @ (b'"' | b'\\' | b'/') => *byte,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let unit =
                rest.get(2..6)?.iter().try_fold(0, |unit, byte| Some(unit << 4 | char::from(*byte).to_digit(16)?))?;
            return Some((u16::try_from(unit).ok()?, 6));
        }
        _ => return None,
    };
    Some((u16::from(unit), 2))
}

fn write_string(out: &mut Vec<u8>, units: &[u16]) {
    out.push(b'"');
    for char in char::decode_utf16(units.iter().copied()) {
        match char {
            Ok('"') => out.extend_from_slice(b"\\\""),
            Ok('\\') => out.extend_from_slice(b"\\\\"),
            Ok('\x08') => out.extend_from_slice(b"\\b"),
            Ok('\t') => out.extend_from_slice(b"\\t"),
            Ok('\n') => out.extend_from_slice(b"\\n"),
            Ok('\x0c') => out.extend_from_slice(b"\\f"),
            Ok('\r') => out.extend_from_slice(b"\\r"),
            Ok(char @ '\0'..='\x1f') => write_escape(out, char as u16),
            Ok(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => write_escape(out, lone.unpaired_surrogate()),
        }
    }
    out.push(b'"');
}

fn write_escape(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
}

/// A positive number: `d.ddd × 10^exponent`, without zeros at either end of its digits (so one value, one form).
struct Decimal {
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// What is written for this number: itself where the exact value counts (see the [module](self)), else the shortest
    /// decimal that reads as the same double.
    fn normal(self) -> Decimal {
        const TWO_TO_53: &str = "9007199254740992";
        // With no zeros at the end, comparing texts compares the values of the fractions `d.ddd`.
        let above = match self.exponent.cmp(&15) {
            Ordering::Less => false,
            Ordering::Equal => self.digits.as_str() > TWO_TO_53,
            Ordering::Greater => true,
        };
        // Normal doubles tell any two decimals of 15 digits apart, so no other one is as short.
        let shortest = self.digits.len() <= 15 && self.exponent > -300;
        // Every number below 10^-324 is zero as a double.
        if above || shortest || self.exponent < -324 {
            return self;
        }
        self.shortest().unwrap_or(self)
    }

    /// `None` if the double is zero.
    fn shortest(&self) -> Option<Decimal> {
        let (first, rest) = self.digits.split_at_checked(1)?;
        let double: f64 = format!("{first}.{rest}0e{}", self.exponent).parse().ok()?;
        if double == 0.0 {
            return None;
        }
        let mut text = format!("{double:e}");
        let decimals = text.find('e')?.saturating_sub(2);
        // Of two shortest decimals equally close to the double ECMAScript takes the even one, as rounding to a number
        // of digits does, but `{:e}` does not. Rounding may leave the double where its neighbours are not equally far.
        let even = format!("{double:.decimals$e}");
        if even.parse() == Ok(double) {
            text = even;
        }
        let (digits, exponent) = text.split_once('e')?;
        Some(Decimal { digits: digits.replace('.', ""), exponent: exponent.parse().ok()? })
    }

    /// Writes the notation of ECMAScript's `Number::toString`.
    fn write(&self, out: &mut Vec<u8>) {
        let digits = self.digits.as_bytes();
        match self.exponent {
            plain @ 0..=20 => {
                let whole = plain as usize + 1;
                let (head, tail) = digits.split_at(whole.min(digits.len()));
                out.extend_from_slice(head);
                out.resize(out.len() + (whole - head.len()), b'0');
                if !tail.is_empty() {
                    out.push(b'.');
                    out.extend_from_slice(tail);
                }
            }
            small @ -6..=-1 => {
                out.extend_from_slice(b"0.");
                out.resize(out.len() + (-small - 1) as usize, b'0');
                out.extend_from_slice(digits);
            }
            exponent => {
                let (first, rest) = digits.split_at(1.min(digits.len()));
                out.extend_from_slice(first);
                if !rest.is_empty() {
                    out.push(b'.');
                    out.extend_from_slice(rest);
                }
                out.extend_from_slice(format!("e{exponent:+}").as_bytes());
            }
        }
    }
}
