//! Templates from files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_modelserving::table_mutator::Templates;
use muster_ranktable::inject::TemplateProblem;
use muster_ranktable::{ConfigMap, TableTemplate};

use crate::{Failure, input};

/// The ConfigMaps that were given, by name. Copies share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given(Arc<BTreeMap<String, ConfigMap>>);

// === impl Given ===

impl Given {
    /// Those in files, and in the files of folders.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut maps = BTreeMap::new();
        for path in paths {
            let before = maps.len();
            for file in files(path)? {
                for object in input::objects(&file)? {
                    if object["kind"] == "ConfigMap" {
                        let map: ConfigMap = serde_json::from_value(object)
                            .map_err(|error| input::wrong(&file, error))?;
                        maps.insert(map.name.clone(), map);
                    }
                }
            }
            if maps.len() == before {
                let shown = path.display();
                return Err(Failure::Usage(format!("{shown}: there is no new ConfigMap in it")));
            }
        }
        Ok(Self(Arc::new(maps)))
    }

    /// Whether there is one of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Their names, for a person.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        format!("these are: {}", names.join(", "))
    }
}

impl Templates for Given {
    fn template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        let Some(map) = self.0.get(name) else {
            let (namespace, name) = ("--templates".to_owned(), name.to_owned());
            return Err(TemplateProblem::Missing { namespace, name });
        };
        Ok(Arc::new(TableTemplate::read(map, self.0.get(map.parser_name()))?))
    }
}

/// The file, or the YAML and JSON of the folder.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error| Failure::Usage(format!("{}: {error}", path.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        files.push(entry.map_err(unreadable)?.path());
    }
    let ends = |file: &PathBuf| {
        let end = file.extension().and_then(|end| end.to_str());
        file.is_file() && matches!(end, Some("yaml" | "yml" | "json"))
    };
    files.retain(ends);
    files.sort();
    Ok(files)
}
