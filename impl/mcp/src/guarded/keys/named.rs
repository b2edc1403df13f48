//! Keys of the arguments that the configuration names.

use settled_protocol::{canonicalize, composite_id};

use super::NoKey;
use crate::config::KeyFrom;
use crate::messages::splice;

/// The id of a call with these arguments. Its parts are the names and the values, each with its length before it.
pub(super) fn id(from: &KeyFrom, arguments: &str) -> Result<String, NoKey> {
    let (kind, parts) = match from {
        KeyFrom::Arguments(names) => {
            let mut parts = Vec::with_capacity(names.len() * 2);
            for name in names {
                let value = splice::get(arguments, name).ok_or_else(|| NoKey::Missing(name.clone()))?;
                parts.push(name.clone());
                parts.push(canonical(value)?);
            }
            ("fields", parts)
        }
        KeyFrom::Template(template) => {
            let mut parts = vec![template.text().to_owned()];
            for path in template.arguments() {
                let value = find(arguments, path).ok_or_else(|| NoKey::Missing(path.join(".")))?;
                // A text is made of them: what can't be part of one was hardly meant, `null` least of all.
                if value.starts_with(['{', '[', 'n']) {
                    return Err(NoKey::NotPlain(path.join(".")));
                }
                parts.push(canonical(value)?);
            }
            ("template", parts)
        }
    };
    Ok(format!("{kind}:{}", composite_id(parts.iter().map(String::as_str))))
}

/// The value at the end of these steps.
fn find<'a>(arguments: &'a str, path: &[String]) -> Option<&'a str> {
    path.iter().try_fold(arguments, |at, step| match splice::elements(at) {
        Some(elements) => step.parse::<usize>().ok().and_then(|place| elements.get(place).copied()),
        None => splice::get(at, step),
    })
}

fn canonical(value: &str) -> Result<String, NoKey> {
    let canonical =
        canonicalize(value.as_bytes()).map_err(|source| NoKey::NotCanonical { member: "arguments", source })?;
    // Canonical JSON is UTF-8.
    Ok(String::from_utf8_lossy(&canonical).into_owned())
}
