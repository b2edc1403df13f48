//! The key that the caller gives itself, in one of three places.

use super::{META_KEY, NoKey, Origin, PARAMETER};
use crate::messages::splice;

/// The name of the HTTP header.
const HEADER: &str = "Idempotency-Key";

/// The key, and where it stands first. In several places it must be the same one: of two keys nobody can say which is meant.
pub(super) fn key(
    parameter: Option<&str>,
    meta: Option<&str>,
    header: Option<&str>,
) -> Result<Option<(Origin, String)>, NoKey> {
    let parameter = parameter.map(|value| text(PARAMETER, value)).transpose()?;
    let meta = meta.and_then(|meta| splice::get(meta, META_KEY)).map(|value| text(META_KEY, value)).transpose()?;
    let header = header.map(str::to_owned);
    let places =
        [(Origin::Parameter, PARAMETER, parameter), (Origin::Meta, META_KEY, meta), (Origin::Header, HEADER, header)];
    let mut found: Option<(Origin, &'static str, String)> = None;
    for (origin, place, key) in places {
        match (&found, key) {
            (_, None) => {}
            (None, Some(key)) => found = Some((origin, place, key)),
            (Some((_, _, first)), Some(key)) if *first == key => {}
            (Some((_, one, _)), Some(_)) => return Err(NoKey::TwoKeys { one, other: place }),
        }
    }
    Ok(found.map(|(origin, _, key)| (origin, key)))
}

fn text(name: &'static str, value: &str) -> Result<String, NoKey> {
    serde_json::from_str::<String>(value).ok().filter(|text| !text.is_empty()).ok_or(NoKey::NotText(name))
}
