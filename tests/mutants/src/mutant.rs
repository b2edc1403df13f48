//! The mutants, as their patches describe them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use settled_explorer::PropertyName;

use crate::error::MutantError;
use crate::layer::Layer;

/// Which part of the code a mutant is about: the folder of its patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// The protocol core.
    Core,
    /// The engine.
    Engine,
    /// The ledgers.
    Ledger,
    /// The MCP proxy.
    Proxy,
}

impl Area {
    /// All of them.
    pub const ALL: [Area; 4] = [Area::Core, Area::Engine, Area::Ledger, Area::Proxy];

    /// The name of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Area::Core => "core",
            Area::Engine => "engine",
            Area::Ledger => "ledger",
            Area::Proxy => "proxy",
        }
    }
}

/// A mistake, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    /// Which part of the code it is about.
    pub area: Area,
    /// The patch's name, without folder and ending.
    pub name: String,
    /// What it does wrong.
    pub title: String,
    /// The properties that it breaks.
    pub breaks: Vec<PropertyName>,
    /// The layer that finds it first.
    pub layer: Layer,
    /// The compiler's error, such as `E0451`, if that finds it. Any other error means that the patch is broken, not the code.
    pub error: Option<String>,
    /// The file of tests that is known to find it, or `unit`: tried first within its layer.
    pub test: Option<String>,
    /// Whether it belongs to the small sample.
    pub sample: bool,
    /// The file that it changes, from the root of the tree.
    pub file: String,
    /// The patch itself.
    pub patch: String,
}

impl Mutant {
    /// Reads a patch: lines `Name: value`, then a unified diff of one file.
    ///
    /// # Errors
    /// [`MutantError::Patch`] says what is missing or not known.
    pub fn parse(area: Area, name: &str, text: &str) -> Result<Mutant, MutantError> {
        let wrong = |problem: String| MutantError::Patch { patch: format!("{}/{name}", area.name()), problem };
        let (head, patch) = text
            .find("\n--- a/")
            .and_then(|at| text.split_at_checked(at + 1))
            .ok_or_else(|| wrong("it has no line `--- a/FILE`: make it with `diff -u` or `git diff`".to_owned()))?;
        let fields: Vec<(&str, &str)> = head.lines().filter_map(|line| line.split_once(": ")).collect();
        let field = |wanted: &str| fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.trim());
        let needed = |name: &str| {
            field(name).filter(|value| !value.is_empty()).ok_or_else(|| wrong(format!("it has no line `{name}: …`")))
        };
        let known = ["Title", "Breaks", "Layer", "Error", "Test", "Sample"];
        if let Some((name, _)) = fields.iter().find(|(name, _)| !known.contains(name)) {
            return Err(wrong(format!("`{name}` is not known; known are: {}", known.join(", "))));
        }
        let property = |name: &str| {
            let found = PropertyName::ALL.iter().copied().find(|property| property.name() == name);
            let names: Vec<_> = PropertyName::ALL.iter().map(|property| property.name()).collect();
            found.ok_or_else(|| wrong(format!("`{name}` is no property; they are: {}", names.join(", "))))
        };
        let layer: Layer = needed("Layer")?.parse().map_err(&wrong)?;
        let error = field("Error").map(str::to_owned);
        if (layer == Layer::Types) != error.is_some() {
            return Err(wrong("`Error: …` names the compiler's error, if and only if `Layer: types`".to_owned()));
        }
        let file = patch.lines().next().and_then(|line| line.strip_prefix("--- a/"));
        Ok(Mutant {
            area,
            name: name.to_owned(),
            title: needed("Title")?.to_owned(),
            breaks: needed("Breaks")?.split(", ").map(property).collect::<Result<_, _>>()?,
            layer,
            error,
            test: field("Test").map(str::to_owned),
            sample: field("Sample") == Some("yes"),
            file: file.and_then(|file| file.split('\t').next()).unwrap_or_default().to_owned(),
            patch: patch.to_owned(),
        })
    }

    /// Its area and name.
    pub fn id(&self) -> String {
        format!("{}/{}", self.area.name(), self.name)
    }

    /// The names of the properties that it breaks.
    pub fn broken(&self) -> String {
        self.breaks.iter().map(|property| property.name()).collect::<Vec<_>>().join(", ")
    }
}

/// Where the patches are.
pub fn patches() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// All mutants whose patches are in this directory, by area and name.
///
/// # Errors
/// If a patch can't be read.
pub fn all(directory: &Path) -> Result<Vec<Mutant>, MutantError> {
    let mut mutants = Vec::new();
    for area in Area::ALL {
        let folder = directory.join(area.name());
        for file in fs::read_dir(&folder).map_err(MutantError::io("read", &folder))? {
            let path = file.map_err(MutantError::io("read", &folder))?.path();
            let (Some(name), Some("patch")) = (path.file_stem(), path.extension().and_then(|it| it.to_str())) else {
                continue;
            };
            let text = fs::read_to_string(&path).map_err(MutantError::io("read", &path))?;
            mutants.push(Mutant::parse(area, &name.to_string_lossy(), &text)?);
        }
    }
    mutants.sort_by(|a, b| (a.area, &a.name).cmp(&(b.area, &b.name)));
    Ok(mutants)
}
