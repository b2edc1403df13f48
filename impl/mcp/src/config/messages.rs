//! `[messages]`: what the model is told, and in which language.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::Deserialize;
use settled_observers::{Template, Where};
use toml::Spanned;

use super::Wrong;

/// A language that the proxy speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// `language = "en"`.
    #[default]
    English,
    /// `language = "ja"`.
    Japanese,
}

/// Something that the model is told in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Text {
    /// With a recorded answer, if `mark_replays` is set.
    Replayed,
    /// It happened, and there is no answer of the tool to tell.
    Happened,
    /// It did not happen.
    Failed,
    /// Nobody knows, and only a person can find out.
    Unknown,
    /// Nobody knows yet.
    UnknownPending,
    /// After one of those two, with the recorded error of an earlier call.
    UnknownError,
    /// It is being carried out.
    InProgress,
    /// The caller's key was used with other arguments.
    Conflict,
    /// The declared `key` is that of an earlier call with other arguments.
    ConflictNamed,
    /// What was recorded is no longer kept.
    Expired,
    /// After an unknown or a call in progress, if there is a `settled_status` tool.
    AskStatus,
    /// It happened, as an observation shows, and the tool's own answer was lost.
    Observed,
    /// From `settled_status`: it happened.
    StatusDone,
    /// From `settled_status`: nobody knows yet.
    StatusPending,
    /// From `settled_status`: it is being carried out.
    StatusInProgress,
    /// From `settled_status`: the tool asked for input, and no more came.
    StatusInput,
    /// From `settled_status`: it has ended, and its answer is no longer kept.
    StatusExpired,
    /// From `settled_status`: there is no such operation.
    StatusNotKnown,
}

impl Text {
    /// All of them.
    pub const ALL: [Text; 18] = [
        Text::Replayed,
        Text::Happened,
        Text::Failed,
        Text::Unknown,
        Text::UnknownPending,
        Text::UnknownError,
        Text::InProgress,
        Text::Conflict,
        Text::ConflictNamed,
        Text::Expired,
        Text::AskStatus,
        Text::Observed,
        Text::StatusDone,
        Text::StatusPending,
        Text::StatusInProgress,
        Text::StatusInput,
        Text::StatusExpired,
        Text::StatusNotKnown,
    ];

    /// Its name in `[messages.texts]`.
    pub fn name(self) -> &'static str {
        match self {
            Text::Replayed => "replayed",
            Text::Happened => "happened",
            Text::Failed => "failed",
            Text::Unknown => "unknown",
            Text::UnknownPending => "unknown_pending",
            Text::UnknownError => "unknown_error",
            Text::InProgress => "in_progress",
            Text::Conflict => "conflict",
            Text::ConflictNamed => "conflict_named",
            Text::Expired => "expired",
            Text::AskStatus => "ask_status",
            Text::Observed => "observed",
            Text::StatusDone => "status_done",
            Text::StatusPending => "status_pending",
            Text::StatusInProgress => "status_in_progress",
            Text::StatusInput => "status_input",
            Text::StatusExpired => "status_expired",
            Text::StatusNotKnown => "status_not_known",
        }
    }
}

impl FromStr for Text {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Text::ALL.into_iter().find(|text| text.name() == name).ok_or(())
    }
}

/// What may stand in braces in a text.
pub(crate) const PLACEHOLDERS: [&str; 4] = ["tool", "key", "address", "command"];

/// What the model is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Messages {
    /// The language of what is not told in words of the user's own.
    pub language: Language,
    /// Whether recorded answers are marked in words, besides the mark in `_meta`.
    pub mark_replays: bool,
    /// The user's own words.
    pub texts: BTreeMap<Text, Template>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesTable {
    language: Option<Spanned<String>>,
    mark_replays: Option<bool>,
    #[serde(default)]
    texts: BTreeMap<Spanned<String>, Spanned<String>>,
}

impl MessagesTable {
    pub(super) fn check(self) -> Result<Messages, Wrong> {
        let language = self.language.map(|value| language(&value)).transpose()?.unwrap_or_default();
        let texts = self.texts.into_iter().map(|(name, text)| own_text(name, text)).collect::<Result<_, _>>()?;
        Ok(Messages { language, mark_replays: self.mark_replays.unwrap_or_default(), texts })
    }
}

fn language(value: &Spanned<String>) -> Result<Language, Wrong> {
    match value.get_ref().as_str() {
        "en" => Ok(Language::English),
        "ja" => Ok(Language::Japanese),
        other => {
            let problem = format!(
                "`{other}` is not shipped: write `en` or `ja`, and put your own words under [messages.texts] for any other"
            );
            Err(Wrong::new(value.span(), "messages.language", problem))
        }
    }
}

fn own_text(name: Spanned<String>, text: Spanned<String>) -> Result<(Text, Template), Wrong> {
    let field = format!("messages.texts.{}", name.get_ref());
    let Ok(id) = name.get_ref().parse::<Text>() else {
        let names: Vec<String> = Text::ALL.iter().map(|text| format!("`{}`", text.name())).collect();
        return Err(Wrong::new(
            name.span(),
            field,
            format!("is no text that is told: write one of {}", names.join(", ")),
        ));
    };
    if text.get_ref().trim().is_empty() {
        return Err(Wrong::new(text.span(), field, "is empty: the model would be told nothing; leave the line out"));
    }
    let template = Template::parse(text.get_ref(), Where::Resource)
        .map_err(|error| Wrong::new(text.span(), field.clone(), error.to_string()))?;
    for path in template.arguments() {
        let placeholder = path.join(".");
        if !PLACEHOLDERS.contains(&placeholder.as_str()) {
            let allowed: Vec<String> = PLACEHOLDERS.iter().map(|name| format!("`{{{name}}}`")).collect();
            let problem = format!("has `{{{placeholder}}}`, which has no meaning here: write {}", allowed.join(", "));
            return Err(Wrong::new(text.span(), field, problem));
        }
    }
    Ok((id, template))
}
