//! A cluster that holds what was given, and no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::TrainJob;
use muster_api::job_set::JobSet;
use muster_modelserving::table_mutator::Templates as _;
use muster_pipeline::Cluster;
use muster_pipeline::runtime::{Runtime, RuntimeKind};
use muster_pipeline::snapshot::Snapshot;
use muster_ranktable::TableTemplate;
use muster_ranktable::inject::TemplateProblem;
use serde_json::Value as Json;

use crate::plan::templates::Given as Templates;

/// What was given.
pub(super) struct Given {
    objects: Vec<Json>,
    templates: Templates,
}

// === impl Given ===

impl Given {
    pub(super) fn new(objects: Vec<Json>, templates: Templates) -> Self {
        Self { objects, templates }
    }

    /// Whether the job has a JobSet.
    pub(super) fn has_job_set(&self, job: &TrainJob) -> bool {
        self.find(None, "JobSet", job.namespace(), job.name()).is_some()
    }

    fn find(&self, api: Option<&str>, kind: &str, namespace: &str, name: &str) -> Option<&Json> {
        self.objects.iter().find(|object| {
            let metadata = &object["metadata"];
            object["kind"] == kind
                && api.is_none_or(|api| object["apiVersion"] == api)
                && metadata["name"] == name
                && metadata["namespace"].as_str().unwrap_or_default() == namespace
        })
    }
}

impl Cluster for Given {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Option<Arc<Runtime>> {
        let namespace = if kind == RuntimeKind::Namespaced { namespace } else { "" };
        let object = self.find(None, kind.kind(), namespace, name)?;
        Runtime::read(object.clone()).ok().map(Arc::new)
    }

    fn snapshot(&self, namespace: &str, name: &str) -> Option<Snapshot> {
        self.find(Some("v1"), "ConfigMap", namespace, name).map(Snapshot::read)
    }

    fn job_set(&self, namespace: &str, name: &str) -> Option<Arc<JobSet>> {
        let object = self.find(None, "JobSet", namespace, name)?;
        serde_json::from_value(object.clone()).ok().map(Arc::new)
    }

    fn exists(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        self.find(Some(api_version), kind, namespace, name).is_some()
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<BTreeMap<String, Vec<u8>>> {
        let object = self.find(Some("v1"), "Secret", namespace, name)?;
        let part = |key: &str| object[key].as_object().into_iter().flatten();
        let data = part("data")
            .filter_map(|(key, value)| Some((key.clone(), STANDARD.decode(value.as_str()?).ok()?)));
        let plain = part("stringData");
        let plain = plain.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.into())));
        Some(data.chain(plain).collect())
    }

    fn table_template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        self.templates.template(name)
    }
}
