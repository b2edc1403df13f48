//! Which targets there are, and by which rules each merges.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use settled_protocol::merge::{Change, Merged, Name, Rule, Value};

/// The largest number a value may have, positive or negative: what every client's language holds exactly (RFC 7493, section 2.2).
pub const LARGEST: i64 = (1 << 53) - 1;

/// The kinds of targets, each with its rule.
///
/// A target's kind is its name up to the first `/`: `task/42` is of the kind `task`. A later version may have more kinds and more
/// fields; none may be gone or follow another rule, since operations of older versions are still on their way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    /// Counts up with every change.
    pub version: u32,
    /// The rule of each kind.
    #[serde(with = "rules")]
    pub kinds: BTreeMap<Name, Rule>,
}

/// A schema that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// There is none.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Where it was looked for.
        path: std::path::PathBuf,
        /// Why it can't be read.
        error: std::io::Error,
    },
    /// It says something that can't be.
    #[error("{0}")]
    Invalid(String),
    /// It is no later version of the one before.
    #[error(
        "the schema can't follow version {version}: {what}; kinds and fields may be added, under a higher version, and nothing else changed"
    )]
    NotLater {
        /// The version that there was.
        version: u32,
        /// What is wrong with it.
        what: String,
    },
}

/// Why a change can't be applied to a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// No such kind.
    #[error("there are no targets of the kind `{0}`")]
    Kind(String),
    /// No such field.
    #[error("targets of this kind have no field `{0}`")]
    Field(String),
    /// Another kind of change is needed.
    #[error(
        "this change does not fit the rule `{0}`: registers are set, sets are added to (and removed from, with `add-wins`), counters are counted"
    )]
    Rule(&'static str),
    /// Too large a number.
    #[error("numbers are integers of up to 2^53 - 1 in size")]
    Number,
}

impl Unfit {
    /// Whether a later version of the schema may allow it.
    #[must_use]
    pub fn may_come(&self) -> bool {
        matches!(self, Self::Kind(_) | Self::Field(_))
    }
}

impl Schema {
    /// Reads a schema from TOML.
    ///
    /// # Errors
    /// [`SchemaError::Invalid`] with the place of the mistake.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        toml::from_str(text).map_err(|error| SchemaError::Invalid(error.to_string()))
    }

    /// Reads a schema from a file.
    ///
    /// # Errors
    /// [`SchemaError`] if there is none, or it says what can't be.
    pub fn load(path: &Path) -> Result<Self, SchemaError> {
        let unreadable = |error| SchemaError::Unreadable { path: path.to_owned(), error };
        let text = std::fs::read_to_string(path).map_err(unreadable)?;
        Self::parse(&text).map_err(|error| SchemaError::Invalid(format!("{}: {error}", path.display())))
    }

    /// The rule of this target.
    #[must_use]
    pub fn rule(&self, target: &Name) -> Option<&Rule> {
        let kind = target.as_str().split('/').next().unwrap_or_default();
        self.kinds.iter().find(|(name, _)| name.as_str() == kind).map(|(_, rule)| rule)
    }

    /// The state of a target without operations.
    #[must_use]
    pub fn nothing(&self, target: &Name) -> Option<Merged> {
        self.rule(target).map(Rule::nothing)
    }

    /// Checks that a change can be applied to a target.
    ///
    /// # Errors
    /// [`Unfit`], with what is allowed.
    pub fn check(&self, target: &Name, change: &Change) -> Result<(), Unfit> {
        let kind = || Unfit::Kind(target.as_str().split('/').next().unwrap_or_default().to_owned());
        fits(self.rule(target).ok_or_else(kind)?, change)
    }

    /// Checks that this schema can follow an earlier one.
    ///
    /// # Errors
    /// [`SchemaError::NotLater`] if something of the earlier one is gone or otherwise, or the version does not say that something is new.
    pub fn follows(&self, earlier: &Self) -> Result<(), SchemaError> {
        let not = |what: String| Err(SchemaError::NotLater { version: earlier.version, what });
        if self == earlier {
            return Ok(());
        }
        if self.version <= earlier.version {
            return not(format!("its version is {}", self.version));
        }
        for (kind, rule) in &earlier.kinds {
            match self.kinds.get(kind) {
                None => return not(format!("`{kind}` is gone")),
                Some(now) => {
                    if let Some(what) = differs(kind.as_str(), rule, now) {
                        return not(what);
                    }
                }
            }
        }
        Ok(())
    }
}

/// What of a rule is no longer so.
fn differs(path: &str, earlier: &Rule, now: &Rule) -> Option<String> {
    match (earlier, now) {
        (Rule::Map(earlier), Rule::Map(now)) => earlier.iter().find_map(|(name, rule)| {
            let path = format!("{path}.{name}");
            match now.get(name) {
                None => Some(format!("`{path}` is gone")),
                Some(now) => differs(&path, rule, now),
            }
        }),
        _ if earlier == now => None,
        _ => Some(format!("`{path}` was `{}` and is `{}`", word(earlier), word(now))),
    }
}

fn fits(rule: &Rule, change: &Change) -> Result<(), Unfit> {
    let sized = |number: i64| if number.unsigned_abs() <= LARGEST as u64 { Ok(()) } else { Err(Unfit::Number) };
    let value = |value: &Value| if let Value::Number(number) = value { sized(*number) } else { Ok(()) };
    match (rule, change) {
        (Rule::Latest | Rule::Earliest | Rule::Max | Rule::Min, Change::Set(new))
        | (Rule::Union | Rule::AddWins, Change::Add(new))
        | (Rule::AddWins, Change::Remove { value: new, .. }) => value(new),
        (Rule::Counter, Change::Count(by)) => sized(*by),
        (Rule::Map(fields), Change::Field(name, change)) => {
            fits(fields.get(name).ok_or_else(|| Unfit::Field(name.as_str().to_owned()))?, change)
        }
        _ => Err(Unfit::Rule(word(rule))),
    }
}

/// The simple rules, by the words that a schema has for them.
const WORDS: [(&str, Rule); 7] = [
    ("latest", Rule::Latest),
    ("earliest", Rule::Earliest),
    ("max", Rule::Max),
    ("min", Rule::Min),
    ("union", Rule::Union),
    ("add-wins", Rule::AddWins),
    ("counter", Rule::Counter),
];

fn word(rule: &Rule) -> &'static str {
    WORDS.iter().find(|(_, known)| known == rule).map_or("fields", |(word, _)| word)
}

/// A rule in a schema: a word, or a table of fields.
mod rules {
    use super::{BTreeMap, Deserialize, Name, Rule, Serialize, WORDS, word};
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged, expecting = "a rule's name, or a table of fields")]
    enum Written {
        Word(String),
        Fields(BTreeMap<Name, Written>),
    }

    fn write(rule: &Rule) -> Written {
        match rule {
            Rule::Map(fields) => {
                Written::Fields(fields.iter().map(|(name, rule)| (name.clone(), write(rule))).collect())
            }
            simple => Written::Word(word(simple).to_owned()),
        }
    }

    fn read(written: Written) -> Result<Rule, String> {
        Ok(match written {
            Written::Word(text) => {
                let known = WORDS.iter().find(|(word, _)| *word == text).map(|(_, rule)| rule.clone());
                known.ok_or_else(|| {
                    let words: Vec<_> = WORDS.iter().map(|(word, _)| *word).collect();
                    format!("`{text}` is no rule; there are {}, and tables of fields", words.join(", "))
                })?
            }
            Written::Fields(fields) => Rule::Map(
                fields.into_iter().map(|(name, rule)| Ok((name, read(rule)?))).collect::<Result<_, String>>()?,
            ),
        })
    }

    pub fn serialize<S: Serializer>(kinds: &BTreeMap<Name, Rule>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(kinds.iter().map(|(name, rule)| (name, write(rule))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<Name, Rule>, D::Error> {
        let kinds = BTreeMap::<Name, Written>::deserialize(from)?;
        kinds
            .into_iter()
            .map(|(name, rule)| {
                if name.as_str().contains('/') {
                    return Err(D::Error::custom(format!("`{name}`: a kind has no `/` in its name")));
                }
                Ok((name, read(rule).map_err(D::Error::custom)?))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASKS: &str = r#"
version = 1
[kinds]
votes = "counter"
[kinds.task]
title = "latest"
finished = "earliest"
tags = "add-wins"
[kinds.task.best]
time = "min"
"#;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_schema_reads_back() {
        let schema = Schema::parse(TASKS).unwrap();
        assert_eq!(Schema::parse(&toml::to_string(&schema).unwrap()).unwrap(), schema);
        assert_eq!(schema.rule(&name("votes")), Some(&Rule::Counter));
        assert!(matches!(schema.rule(&name("task/1/2")), Some(Rule::Map(fields)) if fields.len() == 4));
        assert_eq!(schema.rule(&name("tas/1")), None);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("version = 1\n[kinds]\nx = \"last\"", "`last` is no rule"),
            ("version = 1\n[kinds]\nx = 3", "a rule's name, or a table of fields"),
            ("version = 1\n[kinds]\n\"a/b\" = \"max\"", "no `/`"),
            ("[kinds]\nx = \"max\"", "version"),
        ] {
            let error = Schema::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = Schema::parse(TASKS).unwrap();
        let field = |field: &str, change| Change::Field(name(field), Box::new(change));
        let check = |target: &str, change| schema.check(&name(target), &change);
        assert_eq!(check("task/1", field("title", Change::Set("x".into()))), Ok(()));
        assert_eq!(check("task/1", field("best", field("time", Change::Set(4.into())))), Ok(()));
        assert_eq!(check("note/1", Change::Set(1.into())), Err(Unfit::Kind("note".into())));
        assert_eq!(check("task/1", field("due", Change::Set(1.into()))), Err(Unfit::Field("due".into())));
        assert_eq!(check("task/1", Change::Set(1.into())), Err(Unfit::Rule("fields")));
        assert_eq!(check("votes", Change::Count(LARGEST + 1)), Err(Unfit::Number));
        assert_eq!(check("votes", Change::Count(i64::MIN)), Err(Unfit::Number));
    }

    #[test]
    fn only_more_may_follow() {
        let earlier = Schema::parse(TASKS).unwrap();
        let changed = |from: &str, to: &str| Schema::parse(&TASKS.replace(from, to)).unwrap().follows(&earlier);
        assert!(changed("version = 1", "version = 1").is_ok());
        assert!(changed("version = 1\n[kinds]", "version = 2\n[kinds]\nnote = \"latest\"").is_ok());
        for (from, to, says) in [
            ("version = 1\n[kinds]", "version = 1\n[kinds]\nnote = \"latest\"", "version is 1"),
            ("version = 1\n[kinds]\nvotes = \"counter\"", "version = 2\n[kinds]", "`votes` is gone"),
            (
                "version = 1\n[kinds]\nvotes = \"counter\"",
                "version = 2\n[kinds]\nvotes = \"max\"",
                "was `counter` and is `max`",
            ),
        ] {
            let error = changed(from, to).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
