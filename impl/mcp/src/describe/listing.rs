//! What a server lists.

use serde_json::Value;
use settled_protocol::Digest;

use super::Tools;
use crate::listed::definition;
use crate::messages::splice;

/// What a server lists.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// What the server calls itself.
    pub(super) server: String,
    pub(super) tools: Tools,
    /// How many tools have no name that can be read.
    pub(super) nameless: usize,
}

/// A tool, as often as it is listed under its name.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) description: String,
    /// The annotations, as they are written.
    pub(super) claims: Vec<(String, String)>,
    pub(super) arguments: Vec<Argument>,
    definitions: Vec<Digest>,
}

/// An argument of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) required: bool,
}

impl Listing {
    pub(super) fn of(server: Option<&str>) -> Listing {
        let member = |name| server.and_then(|server| splice::get_string(server, name)).unwrap_or_default();
        let server = format!("{} {}", member("name"), member("version"));
        Listing { server: server.trim().to_owned(), ..Listing::default() }
    }

    pub(super) fn add(&mut self, tool: &str) {
        let Some(name) = splice::get_string(tool, "name") else {
            self.nameless += 1;
            return;
        };
        let definition = definition::digest(tool);
        match self.tools.get_mut(&name) {
            Some(listed) => {
                listed.definitions.push(definition);
                // Of two, nothing that only one says is to be relied on.
                let claims = claims(tool);
                listed.claims.retain(|claim| claims.contains(claim));
                let arguments = arguments(tool);
                listed.arguments.retain(|argument| arguments.contains(argument));
            }
            None => {
                let listed = Listed {
                    description: splice::get_string(tool, "description")
                        .or_else(|| splice::get_string(tool, "title"))
                        .unwrap_or_default(),
                    claims: claims(tool),
                    arguments: arguments(tool),
                    definitions: vec![definition],
                };
                self.tools.insert(name, listed);
            }
        }
    }
}

impl Listed {
    /// The digest of its definition, or of all of them, as it is compared when the server runs.
    pub(super) fn definition(&self) -> Digest {
        let mut definitions = self.definitions.iter().copied();
        let first = definitions.next().unwrap_or_else(|| definition::digest("{}"));
        definitions.fold(first, definition::together)
    }

    /// How often it is listed.
    pub(super) fn times(&self) -> usize {
        self.definitions.len()
    }

    pub(super) fn claims(&self, hint: &str) -> Option<bool> {
        let claim = self.claims.iter().find(|(name, _)| name == hint);
        claim.and_then(|(_, value)| serde_json::from_str(value).ok())
    }
}

fn claims(tool: &str) -> Vec<(String, String)> {
    let members = splice::get(tool, "annotations").and_then(splice::members).unwrap_or_default();
    let claim = |member: &splice::Member<'_>| {
        let name: String = serde_json::from_str(member.name()).ok()?;
        (name != "title").then(|| (name, member.value.to_owned()))
    };
    members.iter().filter_map(claim).collect()
}

fn arguments(tool: &str) -> Vec<Argument> {
    let Some(schema) = splice::get(tool, "inputSchema") else { return Vec::new() };
    let required: Vec<String> =
        splice::get(schema, "required").and_then(|names| serde_json::from_str(names).ok()).unwrap_or_default();
    let members = splice::get(schema, "properties").and_then(splice::members).unwrap_or_default();
    let argument = |member: &splice::Member<'_>| {
        let name: String = serde_json::from_str(member.name()).ok()?;
        let kind = match splice::get(member.value, "type").and_then(|kind| serde_json::from_str(kind).ok()) {
            Some(Value::String(kind)) => kind,
            _ => "any".to_owned(),
        };
        Some(Argument { required: required.contains(&name), name, kind })
    };
    members.iter().filter_map(argument).collect()
}
