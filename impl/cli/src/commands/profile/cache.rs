//! Where installed adapters are.

use std::path::PathBuf;

use clap::Args;
use settled_profile::install::Cache;

use crate::failure::Failure;

/// The cache of installed adapters.
#[derive(Debug, Args)]
pub struct CacheArgs {
    /// Where installed adapters are [default: $XDG_CACHE_HOME/settled/profiles or ~/.cache/settled/profiles]
    #[arg(long = "cache", value_name = "DIR", env = "SETTLED_PROFILE_CACHE")]
    directory: Option<PathBuf>,
}

impl CacheArgs {
    /// The cache that is meant.
    pub fn cache(&self) -> Result<Cache, Failure> {
        let named = self.directory.clone().filter(|directory| !directory.as_os_str().is_empty());
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let directory = named
            .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("settled/profiles")))
            .or_else(|| variable("HOME").map(|home| home.join(".cache/settled/profiles")))
            .ok_or_else(|| Failure::input("say where installed adapters are: `--cache DIR`"))?;
        Ok(Cache::at(directory))
    }
}
