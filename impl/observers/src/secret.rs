//! Settings that may be confidential.

use std::fmt;

use crate::error::Unusable;

/// A setting that may be confidential: text in which a word `env:NAME` stands for that environment variable, as in
/// `Bearer env:BANK_TOKEN`. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The setting as it is written.
    pub fn new(written: impl Into<String>) -> Secret {
        Secret(written.into())
    }

    /// The setting as it is meant.
    ///
    /// # Errors
    /// [`Unusable`], which names a variable that is not set, or is not text.
    pub fn resolve(&self) -> Result<String, Unusable> {
        let word = |word: &str| match word.strip_prefix("env:") {
            Some(name) => std::env::var(name).map_err(|error| match error {
                std::env::VarError::NotPresent => {
                    Unusable(format!("the environment variable `{name}`, which it names, is not set"))
                }
                std::env::VarError::NotUnicode(_) => {
                    Unusable(format!("the environment variable `{name}`, which it names, is not text"))
                }
            }),
            None => Ok(word.to_owned()),
        };
        let words: Vec<String> = self.0.split(' ').map(word).collect::<Result<_, _>>()?;
        Ok(words.join(" "))
    }

    /// Whether it is taken from the environment.
    pub(crate) fn is_indirect(&self) -> bool {
        self.0.split(' ').any(|word| word.starts_with("env:"))
    }

    pub(crate) fn written(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_indirect() { self.written() } else { "(hidden)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_resolved_and_never_printed() {
        assert_eq!(Secret::new("plain env text").resolve().unwrap(), "plain env text");
        let path = std::env::var("PATH").unwrap();
        assert_eq!(Secret::new("Bearer env:PATH").resolve().unwrap(), format!("Bearer {path}"));
        let error = Secret::new("env:SETTLED_NOT_SET").resolve().unwrap_err().to_string();
        assert!(error.contains("`SETTLED_NOT_SET`"), "{error}");
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "(hidden)");
    }
}
