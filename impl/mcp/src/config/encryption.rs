//! `[encryption]`, and a tool's `encrypt` and `redact`: what is never kept in clear.

use std::path::PathBuf;

use serde::Deserialize;
use settled_observers::Template;
use toml::Spanned;

use super::Wrong;
use super::key::ArgumentPath;
use super::kind::Kind;
use super::place::{Table, member};
use super::tool::ToolTable;

pub use settled_sealing::KeyFiles as EncryptionConfig;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EncryptionTable {
    key_file: Option<Spanned<String>>,
    #[serde(default)]
    old_key_files: Vec<Spanned<String>>,
    digest_key_file: Option<Spanned<String>>,
}

/// What of a tool's calls is never kept in clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confidential {
    /// Arguments that are encrypted where they are kept.
    pub encrypt: Encrypt,
    /// Arguments that are not kept at all; a keyed digest stands for them.
    pub redact: Vec<ArgumentPath>,
}

/// Which arguments are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Encrypt {
    /// None.
    #[default]
    Nothing,
    /// Those at these places.
    Arguments(Vec<ArgumentPath>),
    /// `encrypt = ["*"]`: all that came with the call.
    Everything,
}

impl Confidential {
    /// Whether there is anything. Answers are then encrypted, too: they may well repeat it.
    pub fn is_any(&self) -> bool {
        self.encrypt != Encrypt::Nothing || !self.redact.is_empty()
    }
}

impl EncryptionTable {
    pub(super) fn check(spanned: Spanned<EncryptionTable>) -> Result<EncryptionConfig, Wrong> {
        let table = Table::new("encryption", spanned.span());
        let own = spanned.into_inner();
        let Some(key_file) = own.key_file else {
            let problem =
                "is missing: name a file with 32 random bytes, such as `head -c 32 /dev/urandom > settled.key` makes";
            return Err(table.lacks("key_file", problem));
        };
        let path = |name: &str, value: &Spanned<String>| match value.get_ref().is_empty() {
            true => Err(table.wrong(value.span(), name, "is empty: name a file")),
            false => Ok(PathBuf::from(value.get_ref())),
        };
        let key = path("key_file", &key_file)?;
        let old_key_files =
            own.old_key_files.iter().map(|file| path("old_key_files", file)).collect::<Result<Vec<_>, _>>()?;
        let digest_key_file = match (&own.digest_key_file, old_key_files.is_empty()) {
            (Some(file), _) => path("digest_key_file", file)?,
            (None, true) => key.clone(),
            (None, false) => {
                let problem = "is missing: name the file of the first key that was ever in use here (`key_file`, before there were old \
                               ones). Calls are recognised by digests with that key: with another one, a repeated call would be \
                               taken for a new one, and be carried out again";
                return Err(table.lacks("digest_key_file", problem));
            }
        };
        Ok(EncryptionConfig { key_file: key, old_key_files, digest_key_file })
    }
}

/// Reads `encrypt` and `redact` of a tool.
pub(super) fn check(
    table: &Table,
    tool: &mut ToolTable,
    kind: &Kind,
    resource: Option<&Template>,
    has_keys: bool,
) -> Result<Confidential, Wrong> {
    if !has_keys {
        let problem = "needs a key: add `[encryption]` with `key_file = \"…\"`, a file of 32 random bytes. (Without a key, a \
                       digest of a card's number would be as good as the number.)";
        table.refuse([member("encrypt", &tool.encrypt), member("redact", &tool.redact)], problem)?;
    }
    let encrypt_at = tool.encrypt.as_ref().map(Spanned::span).unwrap_or_default();
    let redact_at = tool.redact.as_ref().map(Spanned::span).unwrap_or_default();
    let encrypt = match tool.encrypt.take() {
        None => Encrypt::Nothing,
        Some(names) if names.get_ref().iter().any(|name| name == "*") => {
            if names.get_ref().len() > 1 {
                return Err(table.wrong(
                    names.span(),
                    "encrypt",
                    "has `*`, which is all there is: leave out the others",
                ));
            }
            Encrypt::Everything
        }
        Some(names) => Encrypt::Arguments(paths(table, "encrypt", names)?),
    };
    let redact = tool.redact.take().map(|names| paths(table, "redact", names)).transpose()?.unwrap_or_default();
    if encrypt == Encrypt::Everything && !redact.is_empty() {
        let problem = "can't be written beside `encrypt = [\"*\"]`: list what is to be encrypted, without these";
        return Err(table.wrong(redact_at, "redact", problem));
    }
    let encrypted = match &encrypt {
        Encrypt::Arguments(paths) => paths.as_slice(),
        Encrypt::Nothing | Encrypt::Everything => &[],
    };
    let overlap = |one: &ArgumentPath, other: &ArgumentPath| {
        one.steps().starts_with(other.steps()) || other.steps().starts_with(one.steps())
    };
    if let Some(path) = redact.iter().find(|path| encrypted.iter().any(|other| overlap(path, other))) {
        let problem =
            format!("names `{}`, which is in `encrypt` as well: it is either kept or not", path.steps().join("."));
        return Err(table.wrong(redact_at, "redact", problem));
    }
    if !redact.is_empty() && !matches!(kind, Kind::Opaque) {
        let problem = "is for opaque tools: a lost call of this kind is sent again, also by another process, which needs the \
                       arguments: write `encrypt`";
        return Err(table.wrong(redact_at, "redact", problem));
    }
    if let Some(resource) = resource {
        let secret = |path: &&ArgumentPath| {
            resource.arguments().any(|named| named.starts_with(path.steps()) || path.steps().starts_with(named))
        };
        let found = encrypted.iter().find(secret).map(|path| ("encrypt", encrypt_at.clone(), path));
        let found = found.or_else(|| redact.iter().find(secret).map(|path| ("redact", redact_at, path)));
        if let Some((name, at, path)) = found {
            let problem = format!(
                "names `{}`, which is part of `resource`: what a call must have to itself is kept in clear",
                path.steps().join(".")
            );
            return Err(table.wrong(at, name, problem));
        }
        if encrypt == Encrypt::Everything && resource.arguments().next().is_some() {
            let problem =
                "is everything, but `resource` names an argument, and is kept in clear: list what is to be encrypted";
            return Err(table.wrong(encrypt_at, "encrypt", problem));
        }
    }
    Ok(Confidential { encrypt, redact })
}

/// `card.number`, or a JSON pointer that begins with a slash: `/card/number`.
fn paths(table: &Table, field: &str, names: Spanned<Vec<String>>) -> Result<Vec<ArgumentPath>, Wrong> {
    let at = names.span();
    let names = names.into_inner();
    if names.is_empty() {
        return Err(table.wrong(at, field, "is empty: name at least one argument, or leave the line out"));
    }
    let mut paths: Vec<ArgumentPath> = Vec::with_capacity(names.len());
    for name in &names {
        let steps: Vec<String> = match name.strip_prefix('/') {
            Some(pointer) => pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
            None => name.split('.').map(str::to_owned).collect(),
        };
        if steps.iter().any(String::is_empty) {
            let problem =
                format!("`{name}` does not name an argument: write it such as `card.number` or `/card/number`");
            return Err(table.wrong(at, field, problem));
        }
        let path = ArgumentPath::new(steps);
        let within =
            |other: &ArgumentPath| other.steps().starts_with(path.steps()) || path.steps().starts_with(other.steps());
        if paths.iter().any(within) {
            return Err(table.wrong(at, field, format!("names `{name}` and a part of it: name the whole of it once")));
        }
        paths.push(path);
    }
    Ok(paths)
}
