//! Plugins by name.

use std::collections::BTreeMap;

use crate::plugin;

use super::Plugin;

/// Makes a plugin from its arguments.
pub type Build = fn(&BTreeMap<String, String>) -> Box<dyn Plugin>;

/// Plugins that a configuration can name.
#[derive(Clone, Debug)]
pub struct Registry {
    builds: BTreeMap<String, Build>,
}

// === impl Registry ===

impl Default for Registry {
    fn default() -> Self {
        let mut registry = Self { builds: BTreeMap::new() };
        for (name, build) in plugin::BUILT_IN {
            registry.register(name, *build);
        }
        registry
    }
}

impl Registry {
    /// Adds a plugin, or replaces the one of that name.
    pub fn register(&mut self, name: &str, build: Build) {
        self.builds.insert(name.to_owned(), build);
    }

    /// The plugin of a name, made.
    pub fn make(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Option<Box<dyn Plugin>> {
        self.builds.get(name).map(|build| build(arguments))
    }

    /// Names of all registered plugins.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.builds.keys().map(String::as_str)
    }
}
