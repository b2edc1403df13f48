//! How wide text is, without a font at hand: as in DejaVu Sans, which is wider than the other fonts of the style sheet.

/// The width of a character in hundredths of the font size.
fn hundredths(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | '\'' | '’' | '|' | ' ' | ':' | ';' | '!' | '`' => 34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' | '/' | '\\' => 43,
        's' | 'c' | 'z' | 'k' | 'v' | 'x' | 'y' | '“' | '”' => 60,
        'w' => 83,
        'm' | 'M' | 'W' | '@' | '%' => 100,
        '0'..='9' | 'a'..='z' => 64,
        'A'..='Z' | '\u{80}'..='\u{24f}' => 80,
        '\0'..='\u{7f}' => 84,
        '\u{250}'..='\u{10ff}' => 95,
        '\u{2000}'..='\u{2bff}' => 105,
        _ => 140,
    }
}

/// The width of one line of text.
pub(super) fn width(text: &str, size: i32) -> i32 {
    text.chars().map(hundredths).sum::<i32>() * size / 100 + 1
}

/// The width of one line of bold text.
pub(super) fn bold_width(text: &str, size: i32) -> i32 {
    width(text, size) * 9 / 8
}

/// Breaks text into lines of at most `most`: between words, and within a word that is wider than that. Nothing but the
/// spaces at the breaks is left out.
pub(super) fn wrap(text: &str, size: i32, most: i32) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let needed = width(word, size);
        let space = if line.is_empty() { 0 } else { width(" ", size) };
        if used + space + needed > most && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
            used = 0;
        } else if space > 0 {
            line.push(' ');
            used += space;
        }
        for c in word.chars() {
            let wide = hundredths(c) * size / 100 + 1;
            if needed > most && used + wide > most && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += if needed > most { wide } else { 0 };
        }
        used += if needed > most { 0 } else { needed };
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_between_words_and_loses_nothing() {
        let text = "gives up waiting for the answer to key 1; its sender is done";
        let lines = wrap(text, 13, 150);
        assert!(lines.len() > 2 && lines.iter().all(|line| width(line, 13) <= 150), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrap("", 13, 150), [""]);
        assert_eq!(wrap("short", 13, 150), ["short"]);
    }

    #[test]
    fn a_word_that_is_too_wide_is_broken_too() {
        let word = "W".repeat(100);
        let lines = wrap(&format!("a {word} b"), 13, 150);
        assert!(lines.iter().all(|line| width(line, 13) <= 150), "{lines:?}");
        assert_eq!(lines.concat().replace(' ', ""), format!("a{word}b"));
    }
}
