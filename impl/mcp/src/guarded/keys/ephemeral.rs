//! Arguments that have no part in the operation: timestamps, tokens and what else differs between a call and its retry.

use std::borrow::Cow;

use crate::config::ArgumentPath;
use crate::messages::splice;

/// The arguments without what is at these places. Only to be compared: what is sent keeps them.
pub(super) fn without<'a>(arguments: &'a str, paths: &[ArgumentPath]) -> Cow<'a, str> {
    let paths: Vec<&[String]> = paths.iter().map(ArgumentPath::steps).collect();
    if paths.is_empty() { Cow::Borrowed(arguments) } else { left(arguments, &paths) }
}

fn left<'a>(value: &'a str, paths: &[&[String]]) -> Cow<'a, str> {
    if let Some(members) = splice::members(value) {
        let mut parts = Vec::with_capacity(members.len());
        for member in &members {
            let below: Vec<&[String]> = paths
                .iter()
                .filter_map(|path| path.split_first().filter(|(step, _)| member.is(step)).map(|(_, rest)| rest))
                .collect();
            if below.iter().any(|rest| rest.is_empty()) {
                continue;
            }
            parts.push(format!("{}:{}", member.name(), inner(member.value, &below)));
        }
        return Cow::Owned(format!("{{{}}}", parts.join(",")));
    }
    if let Some(elements) = splice::elements(value) {
        let parts: Vec<Cow<'_, str>> = elements
            .iter()
            .enumerate()
            .map(|(place, element)| {
                // The places of a list name what is in it, never a whole element: the others would move.
                let below: Vec<&[String]> = paths
                    .iter()
                    .filter_map(|path| path.split_first())
                    .filter(|(step, rest)| !rest.is_empty() && step.parse() == Ok(place))
                    .map(|(_, rest)| rest)
                    .collect();
                inner(element, &below)
            })
            .collect();
        return Cow::Owned(format!("[{}]", parts.join(",")));
    }
    Cow::Borrowed(value)
}

fn inner<'a>(value: &'a str, paths: &[&[String]]) -> Cow<'a, str> {
    if paths.is_empty() { Cow::Borrowed(value) } else { left(value, paths) }
}
