//! Texts that people and other programs write: never a panic, and an error says where.

use std::path::Path;

use settled::HistoryLine;
use settled_explorer::trace::Trace;
use settled_mcp::{Config, ConfigError};
use settled_model::LoadError;

/// `settled.toml`.
pub fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let path = Path::new("settled.toml");
    match Config::parse(path, &text) {
        Ok(_) => {}
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("settled.toml:"), "{said}");
            assert!(!said.contains('\n') && said.len() < 2_000, "{said}");
            if let ConfigError::Syntax { place, .. } | ConfigError::Wrong { place, .. } = error {
                let line = place.line.unwrap_or_else(|| panic!("no line: {said}"));
                assert!((1..=text.bytes().filter(|byte| *byte == b'\n').count() + 1).contains(&line), "{said}");
            }
        }
    }
}

/// A protocol's description.
pub fn description(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match settled_model::parse("mine.toml", &text) {
        Ok(description) => {
            let _ = (description.policy(), description.is_direct(), description.operations_are_independent());
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("mine.toml:"), "{said}");
            match error {
                LoadError::Malformed { error, .. } => {
                    assert!(said.contains("line ") || error.span().is_none(), "{said}")
                }
                LoadError::Unbuildable { line, .. } => {
                    assert!((1..=text.lines().count().max(1)).contains(&line), "{said}");
                }
                LoadError::Unreadable { .. } | LoadError::NoSuchProtocol { .. } => panic!("{said}"),
            }
        }
    }
}

/// A line of a history: what is read is written and read back.
pub fn history(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(read) = serde_json::from_slice::<HistoryLine>(line) else { continue };
        let written = serde_json::to_string(&read).unwrap();
        assert!(!written.contains('\n'));
        assert_eq!(serde_json::from_str::<HistoryLine>(&written).unwrap(), read, "of {written}");
    }
}

/// A counterexample's trace: what is read is written and read back, and can be shown.
pub fn trace(bytes: &[u8]) {
    let Ok(read) = serde_json::from_slice::<Trace>(bytes) else { return };
    let written = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Trace>(&written).unwrap(), read, "of {written}");
    let _ = (read.text(), read.mermaid());
}
