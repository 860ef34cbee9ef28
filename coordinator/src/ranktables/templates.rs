//! Templates: ConfigMaps of one namespace, compiled once and again when they change.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use muster_ranktable::inject::TemplateProblem;
use muster_ranktable::{ConfigMap as Source, TableTemplate};
use parking_lot::Mutex;

use muster_runtime::reflector::Watch;

/// The templates that can be had. Copies share them.
#[derive(Clone)]
pub struct Templates {
    namespace: String,
    maps: Watch<ConfigMap>,
    compiled: Arc<Mutex<HashMap<String, Compiled>>>,
}

/// One that was compiled, or could not be.
struct Compiled {
    /// Name of its parser's ConfigMap.
    parser: String,
    /// Of the template's ConfigMap and of its parser's.
    versions: (String, Option<String>),
    template: Result<Arc<TableTemplate>, TemplateProblem>,
}

// === impl Templates ===

impl Templates {
    /// The templates among these ConfigMaps, which are those of this namespace.
    pub fn new(namespace: &str, maps: Watch<ConfigMap>) -> Self {
        Self { namespace: namespace.to_owned(), maps, compiled: Arc::default() }
    }

    /// The ConfigMaps, to hear of changes.
    pub fn maps(&self) -> &Watch<ConfigMap> {
        &self.maps
    }

    /// One template, as it is now. An error names the ConfigMap and what to do.
    pub fn get(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        if !self.maps.is_ready() {
            return Err(TemplateProblem::Unread);
        }
        let Some(map) = self.maps.named(&self.namespace, name) else {
            let (namespace, name) = (self.namespace.clone(), name.to_owned());
            return Err(TemplateProblem::Missing { namespace, name });
        };
        let version = |map: &ConfigMap| map.metadata.resource_version.clone().unwrap_or_default();
        let parser = |name: &str| self.maps.named(&self.namespace, name);
        if let Some(known) = self.compiled.lock().get(name)
            && known.versions == (version(&map), parser(&known.parser).as_deref().map(version))
        {
            return known.template.clone();
        }
        let source = read(&map);
        let parser_name = source.parser_name().to_owned();
        let parser = parser(&parser_name);
        let versions = (version(&map), parser.as_deref().map(version));
        let parser = parser.as_deref().map(read);
        let template = TableTemplate::read(&source, parser.as_ref()).map(Arc::new);
        let template = template.map_err(TemplateProblem::Invalid);
        let mut compiled = self.compiled.lock();
        // Those whose ConfigMap is gone.
        compiled.retain(|name, _| self.maps.named(&self.namespace, name).is_some());
        compiled.insert(
            name.to_owned(),
            Compiled { parser: parser_name, versions, template: template.clone() },
        );
        template
    }
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

fn read(map: &ConfigMap) -> Source {
    Source {
        name: map.metadata.name.clone().unwrap_or_default(),
        namespace: map.metadata.namespace.clone().unwrap_or_default(),
        data: map.data.clone().unwrap_or_default(),
    }
}
