//! Changing one member of a JSON object's text while every other byte stays as it is.
//!
//! Numbers beyond what a parser can hold, unknown members, escapes and spaces go through unchanged, because nothing is
//! ever written from a parsed value.

use serde_json::value::RawValue;

/// One member of an object, as slices of its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    name: &'a str,
    /// The value's text.
    pub(crate) value: &'a str,
    start: usize,
}

impl<'a> Member<'a> {
    /// The name's own text, with its quotes.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// Whether this is its name, however that is escaped.
    pub(crate) fn is(&self, name: &str) -> bool {
        let plain = self.name.get(1..self.name.len().saturating_sub(1));
        plain == Some(name)
            || self.name.contains('\\') && serde_json::from_str::<String>(self.name).is_ok_and(|own| own == name)
    }
}

/// The JSON text without the white space around it, if it is valid JSON of whatever depth and size.
pub(crate) fn valid(text: &str) -> Option<&str> {
    serde_json::from_str::<&RawValue>(text).ok().map(RawValue::get)
}

/// Walks over JSON text that is known to be valid; on any other text it merely stops early.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        self.space();
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    fn string(&mut self) -> Option<&'a str> {
        self.space();
        let start = self.at;
        self.take(b'"')?;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        self.text.get(start..self.at)
    }

    fn value(&mut self) -> Option<&'a str> {
        self.space();
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                }
                Some(b'{' | b'[') => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                Some(b'}' | b']') => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                Some(_) if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                Some(_) => {
                    while self.peek().is_some_and(|byte| !b",]} \t\r\n".contains(&byte)) {
                        self.at += 1;
                    }
                }
                None => return None,
            }
            if depth == 0 {
                return self.text.get(start..self.at).filter(|value| !value.is_empty());
            }
        }
    }
}

/// The members of an object's text; `None` if it is not an object.
pub(crate) fn members(object: &str) -> Option<Vec<Member<'_>>> {
    let mut scanner = Scanner { text: object, at: 0 };
    scanner.take(b'{')?;
    let mut members = Vec::new();
    if scanner.take(b'}').is_some() {
        return Some(members);
    }
    loop {
        let name = scanner.string()?;
        scanner.take(b':')?;
        scanner.space();
        let start = scanner.at;
        let value = scanner.value()?;
        members.push(Member { name, value, start });
        if scanner.take(b',').is_none() {
            return scanner.take(b'}').map(|()| members);
        }
    }
}

/// The elements of an array's text; `None` if it is not an array.
pub(crate) fn elements(array: &str) -> Option<Vec<&str>> {
    let mut scanner = Scanner { text: array, at: 0 };
    scanner.take(b'[')?;
    let mut elements = Vec::new();
    if scanner.take(b']').is_some() {
        return Some(elements);
    }
    loop {
        elements.push(scanner.value()?);
        if scanner.take(b',').is_none() {
            return scanner.take(b']').map(|()| elements);
        }
    }
}

/// The member of that name among an object's; of several, the last, as JavaScript, Python and serde take it.
pub(crate) fn find<'a>(members: &[Member<'a>], name: &str) -> Option<Member<'a>> {
    members.iter().rev().find(|member| member.is(name)).copied()
}

/// A member's value in an object's text.
pub(crate) fn get<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    find(&members(object)?, name).map(|member| member.value)
}

/// A member's value in an object's text, if it is a string.
pub(crate) fn get_string(object: &str, name: &str) -> Option<String> {
    get(object, name).and_then(|value| serde_json::from_str(value).ok())
}

/// The object's text with that member set to a value's text: in place if it was there, else at the end. `None` if it
/// is not an object.
pub(crate) fn set(object: &str, name: &str, value: &str) -> Option<String> {
    let members = members(object)?;
    let mut text = String::with_capacity(object.len() + name.len() + value.len() + 8);
    if let Some(member) = find(&members, name) {
        text.push_str(object.get(..member.start)?);
        text.push_str(value);
        text.push_str(object.get(member.start + member.value.len()..)?);
    } else {
        let end = object.rfind('}')?;
        text.push_str(object.get(..end)?);
        if !members.is_empty() {
            text.push(',');
        }
        text.push_str(&quoted(name));
        text.push(':');
        text.push_str(value);
        text.push_str(object.get(end..)?);
    }
    Some(text)
}

/// The object's text without that member; what is between its members goes, too. `None` if it is not an object.
pub(crate) fn without(object: &str, name: &str) -> Option<String> {
    let members = members(object)?;
    let kept = members.iter().filter(|member| !member.is(name));
    let kept: Vec<String> = kept.map(|member| format!("{}:{}", member.name, member.value)).collect();
    Some(format!("{{{}}}", kept.join(",")))
}

/// A JSON string of this text.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("-12345678901234567890123456789.5e+10".to_owned()),
            Just(r#""\ud800 lone""#.to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            ".{0,12}".prop_map(|text| quoted(&text)),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            let spaced = (inner, "[ \t]{0,2}").prop_map(|(value, space)| format!("{space}{value}{space}"));
            prop_oneof![
                prop::collection::vec(spaced.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec((name(), spaced), 0..4).prop_map(|members| object(&members)),
            ]
        })
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![Just("_meta".to_owned()), Just("a\\b\"}".to_owned()), ".{0,6}"]
    }

    fn object(members: &[(String, String)]) -> String {
        let members: Vec<_> = members.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
        format!("{{{}}}", members.join(","))
    }

    proptest! {
        /// Whatever is set, every other byte stays, and a parser sees the new value.
        #[test]
        fn set_changes_nothing_else(members in prop::collection::vec((name(), any_json()), 0..5), value in any_json()) {
            let before = object(&members);
            let after = set(&before, "_meta", &value).unwrap();
            prop_assert!(valid(&after).is_some());
            prop_assert_eq!(get(&after, "_meta"), Some(value.trim_matches([' ', '\t'])));
            let there = members.iter().rposition(|(name, _)| name == "_meta");
            let expected = match there {
                Some(at) => {
                    let mut members = members.clone();
                    // The value's own surrounding space belongs to the object.
                    let old = &members[at].1;
                    let inner = old.trim_matches([' ', '\t']);
                    members[at].1 = old.replacen(inner, &value, 1);
                    object(&members)
                }
                None => {
                    let mut members = members.clone();
                    members.push(("_meta".to_owned(), value.clone()));
                    object(&members)
                }
            };
            prop_assert_eq!(after, expected);
        }

        /// The scanner and a parser agree on the members.
        #[test]
        fn members_as_parsed(members_in in prop::collection::vec((name(), any_json()), 0..5)) {
            let text = object(&members_in);
            let found = members(&text).unwrap();
            prop_assert_eq!(found.len(), members_in.len());
            if let Ok(Value::Object(parsed)) = serde_json::from_str(&text) {
                for (name, value) in &parsed {
                    prop_assert_eq!(serde_json::from_str::<Value>(get(&text, name).unwrap()).unwrap(), value.clone());
                }
            }
        }

        /// No text makes it panic.
        #[test]
        fn total(text in ".{0,40}") {
            let _ = (members(&text), elements(&text), set(&text, "a", "1"), valid(&text));
        }
    }

    #[test]
    fn names_are_compared_unescaped_and_the_last_counts() {
        assert_eq!(get(r#"{"m\u0065thod":1}"#, "method"), Some("1"));
        assert_eq!(get(r#"{"a":1,"a":2}"#, "a"), Some("2"));
        assert_eq!(get(r#"{"\ud800":1, "b" : [1, {"b":3}] }"#, "b"), Some(r#"[1, {"b":3}]"#));
        assert_eq!(set(r#"{ }"#, "a", "1").unwrap(), r#"{ "a":1}"#);
        assert_eq!(elements("[1, [2,3] ,\"]\"]").unwrap(), ["1", "[2,3]", "\"]\""]);
    }
}
