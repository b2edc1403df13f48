//! Names and words of a server in TOML: whatever they are, they stay in their place.

/// A key: bare where it can be.
pub(super) fn key(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { string(name) }
}

/// A string in quotation marks, with nothing in it that would not show.
pub(super) fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if is_hidden(c) => match u32::from(c) {
                code @ ..=0xffff => quoted.push_str(&format!("\\u{code:04X}")),
                code => quoted.push_str(&format!("\\U{code:08X}")),
            },
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A list of strings.
pub(super) fn strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(string).collect();
    format!("[{}]", texts.join(", "))
}

/// Words for a comment: the first line that has any, at most so many characters of it.
pub(super) fn comment(text: &str, most: usize) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let mut words = String::new();
    for (at, c) in line.chars().enumerate() {
        if at == most {
            words.push('…');
            break;
        }
        match c {
            c if c.is_whitespace() => words.push(' '),
            c if is_hidden(c) => words.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => words.push(c),
        }
    }
    words
}

/// What does not show, or changes how other characters show: control characters, and marks of direction and the like.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}
