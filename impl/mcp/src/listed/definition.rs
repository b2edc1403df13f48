//! What a server says that a tool is, as a digest: to notice that it is another one than somebody has looked at.

use settled_protocol::{Digest, canonicalize};

use crate::messages::splice;

/// The members of a definition that count. A description may well name the day.
const MEMBERS: [&str; 4] = ["name", "inputSchema", "outputSchema", "annotations"];

/// The digest of a definition's text. The order of members and the spelling of values don't matter.
pub(crate) fn digest(tool: &str) -> Digest {
    let members = splice::members(tool).unwrap_or_default();
    let mut parts: Vec<Vec<u8>> = Vec::with_capacity(2 * MEMBERS.len());
    for name in MEMBERS {
        let Some(member) = splice::find(&members, name) else { continue };
        let value = canonicalize(member.value.as_bytes()).unwrap_or_else(|_| member.value.as_bytes().to_vec());
        parts.push(name.as_bytes().to_vec());
        parts.push(value);
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Digest::of_parts(&parts)
}

/// The digest of several definitions under one name.
pub(crate) fn together(one: Digest, other: Digest) -> Digest {
    Digest::of_parts(&[one.as_bytes(), other.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts() {
        let tool = r#"{"name":"t","description":"today","inputSchema":{"type":"object","x":1},"annotations":{"readOnlyHint":true}}"#;
        let same =
            r#"{ "annotations":{"readOnlyHint":true},"name":"t","inputSchema":{"x":1.0,"type":"object"},"title":"T"}"#;
        assert_eq!(digest(tool), digest(same));
        for (from, to) in
            [("true", "false"), ("\"x\":1", "\"y\":1"), ("\"t\"", "\"u\""), (",\"annotations\"", ",\"outputSchema\"")]
        {
            assert_ne!(digest(tool), digest(&tool.replace(from, to)), "{to}");
        }
        // What can't be compared by value is compared as it is written.
        let odd = r#"{"name":"t","inputSchema":{"x":1e400}}"#;
        assert_ne!(digest(odd), digest(&odd.replace("400", "401")));
        let (one, other) = (digest(tool), digest(odd));
        assert_ne!(together(one, other), together(other, one));
    }
}
