//! A message that is too large to be read: only what is needed to say so is picked out of it, while it goes by.

use crate::messages::splice;

/// How much of a name or of a value is kept.
const KEPT: usize = 1 << 10;

/// What could be told of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oversized {
    /// How many bytes it had.
    pub(crate) bytes: u64,
    /// The id's own text.
    pub(crate) id: Option<String>,
    /// The method, if it has one.
    pub(crate) method: Option<String>,
}

impl Oversized {
    /// Whether it is an answer.
    pub(crate) fn is_answer(&self) -> bool {
        self.method.is_none() && self.id.is_some()
    }
}

/// Follows a message byte by byte: how deep it is, and what the members of the outermost object are called.
#[derive(Default)]
pub(crate) struct Scan {
    bytes: u64,
    depth: u64,
    /// The outermost value is an object.
    object: bool,
    string: bool,
    escaped: bool,
    /// What comes at depth 1 is a member's value.
    value: bool,
    name: Vec<u8>,
    text: Vec<u8>,
    id: Option<Vec<u8>>,
    method: Option<Vec<u8>>,
}

impl Scan {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn end(self) -> Oversized {
        let text = |bytes: Option<Vec<u8>>| {
            let bytes = bytes.filter(|bytes| bytes.len() < KEPT)?;
            let text = String::from_utf8(bytes).ok()?;
            splice::valid(&text).map(str::to_owned)
        };
        let id = text(self.id).filter(|id| !id.starts_with(['{', '[']));
        let method = text(self.method).and_then(|method| serde_json::from_str::<String>(&method).ok());
        Oversized { bytes: self.bytes, id, method }
    }

    fn byte(&mut self, byte: u8) {
        if self.string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.string = true;
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
                if self.depth == 1 {
                    self.object = byte == b'{';
                }
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.member();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                self.name = std::mem::take(&mut self.text);
                self.value = true;
            }
            b',' if self.depth == 1 => self.member(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.keep(byte),
        }
    }

    /// A member of the outermost object is over. Of several with one name the last one counts.
    fn member(&mut self) {
        let value = std::mem::take(&mut self.text);
        let name = std::mem::take(&mut self.name);
        if std::mem::take(&mut self.value) && self.object {
            match serde_json::from_slice::<String>(&name).as_deref() {
                Ok("id") => self.id = Some(value),
                Ok("method") => self.method = Some(value),
                _ => {}
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.text.len() < KEPT {
            self.text.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::frame::{Frame, parse};
    use proptest::prelude::*;

    fn scanned(text: &[u8], at_once: usize) -> Oversized {
        let mut scan = Scan::default();
        text.chunks(at_once.max(1)).for_each(|piece| scan.feed(piece));
        scan.end()
    }

    fn of(text: &str) -> (Option<String>, Option<String>) {
        let found = scanned(text.as_bytes(), 7);
        (found.id, found.method)
    }

    #[test]
    fn what_is_told_of_a_message() {
        let some = |text: &str| Some(text.to_owned());
        let last = r#"{"method":"tools/call","params":{"id":5,"a":["}",{"method":"x"}],"b":"\"id\":7,"},"jsonrpc":"2.0","id":"a\"b"}"#;
        assert_eq!(of(last), (some(r#""a\"b""#), some("tools/call")));
        assert_eq!(of(r#" { "\u0069d" : 12 , "result":{"id":3}} "#), (some("12"), None));
        assert!(scanned(br#"{"id":1,"result":{}}"#, 1).is_answer());
        assert!(!scanned(br#"{"id":1,"method":"m"}"#, 1).is_answer());
        assert_eq!(of(r#"{"id":1,"id":2,"method":"m"}"#).0, some("2"));
        // Nothing is told where there could be a mistake.
        for odd in [
            r#"[{"id":1}]"#,
            r#"{"id":{"id":1}}"#,
            r#"{"id":nonsense}"#,
            "",
            "]]]]{",
            r#""id":1"#,
            r#"{"params":{"id":1}}"#,
        ] {
            assert_eq!(of(odd).0, None, "{odd}");
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(5000));
        assert_eq!(of(&long), (None, some("m")));
        assert_eq!(scanned(long.as_bytes(), 100).bytes, long.len() as u64);
    }

    proptest! {
        /// It agrees with the parser, however a message is cut, and takes any bytes.
        #[test]
        fn agrees_with_the_parser(
            id in prop_oneof![any::<i64>().prop_map(|id| id.to_string()), ".{0,9}".prop_map(|id| splice::quoted(&id))],
            other in ".{0,20}",
            bytes in prop::collection::vec(any::<u8>(), 0..60),
            at_once in 1usize..30,
        ) {
            let text = format!(r#"{{"params":{{"x":{}}}, "id" :{id},"method":"m"}}"#, splice::quoted(&other));
            let found = scanned(text.as_bytes(), at_once);
            let Frame::Request { id: parsed, method, .. } = parse(text.as_bytes()) else { panic!("a request") };
            prop_assert_eq!((found.id.as_deref(), found.method.as_deref()), (Some(parsed), Some(&*method)));
            scanned(&bytes, at_once);
        }
    }
}
