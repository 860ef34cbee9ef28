//! What pods have that share a table.

use jiff::Timestamp;
use muster_ranktable::ConfigMap;

use super::*;
use crate::preview;
use crate::seen::PodGroupApi;
use crate::shape::Serving;

const ASKED: &str = "kthena.io/ranktable-template";

/// One template, called `t`.
#[derive(Clone)]
struct One;

impl Templates for One {
    fn template(&self, name: &str) -> Result<Arc<TableTemplate>, TemplateProblem> {
        if name != "t" {
            let (namespace, name) = ("kthena-system".to_owned(), name.to_owned());
            return Err(TemplateProblem::Missing { namespace, name });
        }
        let text = "metadata: {name: t}\ndata: {ranktable-template: '{{ .Status }}'}";
        Ok(Arc::new(TableTemplate::read(&ConfigMap::read(text).unwrap(), None)?))
    }
}

fn serving(annotations: Value) -> ModelServing {
    let raw = json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
        "metadata": {"name": "qwen", "namespace": "serve", "annotations": annotations},
        "spec": {"roles": [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": [
            {"name": "c", "volumeMounts": [{"name": "ranktable", "mountPath": "/etc/ascend/ranktable"}]}]}}}]}});
    Serving::read(&raw).unwrap().into_model_serving()
}

/// The pods that are made, or why there are none.
fn pods(annotations: Value) -> Result<Vec<Value>, String> {
    let serving = serving(annotations);
    let mutator = TableMutator::of(&serving, Shape::Short, &One, &Injection::default());
    let now = Timestamp::UNIX_EPOCH;
    let made = preview::objects(&serving, Shape::Short, PodGroupApi::Absent, &mutator, now)?;
    Ok(made.into_iter().map(|object| object.body).filter(|body| body["kind"] == "Pod").collect())
}

#[test]
fn pods_of_a_table_carry_its_marks_and_wait_for_it() {
    let pods = pods(json!({ASKED: "t"})).unwrap();
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        assert_eq!(pod["metadata"]["labels"]["muster.dev/rank-group"], "qwen-worker");
        assert_eq!(pod["metadata"]["annotations"]["muster.dev/rank-group-size"], "2");
        assert_eq!(pod["spec"]["initContainers"][0]["name"], "wait-ranktable");
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
        assert_eq!(mounts.len(), 1, "a mount that is there is not added: {mounts:?}");
    }
}

#[test]
fn a_serving_that_asks_for_nothing_gets_nothing() {
    for pod in pods(json!({})).unwrap() {
        assert_eq!(pod["metadata"]["labels"].get("muster.dev/rank-group"), None);
        assert_eq!(pod["spec"].get("initContainers"), None);
    }
}

#[test]
fn what_cannot_have_its_table_has_no_pods() {
    let error = pods(json!({ASKED: "lost"})).unwrap_err();
    assert!(error.contains("there is no template kthena-system/lost"), "{error}");
    let error = pods(json!({ASKED: "t", "kthena.io/ranktable-level": "rack"})).unwrap_err();
    assert!(error.contains("kthena.io/ranktable-level is \"rack\""), "{error}");
}
