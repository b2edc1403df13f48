//! Words of a framework, fit to be compared: without what is different in every run.

/// The longest that is kept of a line.
const LONGEST: usize = 300;

/// A line without colours, cut to a length, and with each of some names replaced.
pub fn tidy(line: &str, names: &[(String, &str)]) -> String {
    let mut text = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => {
                // A colour: everything up to its letter.
                let _ = characters.by_ref().find(char::is_ascii_alphabetic);
            }
            character if character.is_control() => text.push(' '),
            character => text.push(character),
        }
    }
    for (name, instead) in names.iter().filter(|(name, _)| name != "/") {
        text = text.replace(name, instead);
    }
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn colours_names_and_length() {
        let names = [("/tmp/x".to_owned(), "RUN"), ("/home/x/".to_owned(), "~/")];
        assert_eq!(tidy("\u{1b}[31mno /tmp/x/state in /home/x/y \u{1b}[0m", &names), "no RUN/state in ~/y");
        // Who has no home.
        assert_eq!(tidy("/a/b", &[("/".to_owned(), "~/")]), "/a/b");
        assert_eq!(tidy(&"ü".repeat(400), &[]).chars().count(), 301);
    }
}
