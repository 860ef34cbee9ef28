//! What ModelServings are made of LeaderWorkerSets, and what is said back.

use serde_json::json;

use super::*;
use crate::api::ModelServing;
use crate::plugins::Chain;
use crate::shape::{Serving, Shape};

fn pod(name: &str) -> Value {
    json!({"spec": {"containers": [{"name": name, "image": "nginx"}]}})
}

/// A set with this in its spec.
fn set(spec: Value) -> Value {
    let mut set = json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {"name": "llama", "namespace": "serve", "uid": "u", "generation": 3},
        "spec": {"leaderWorkerTemplate": {"workerTemplate": pod("worker")}},
    });
    merge(&mut set["spec"], spec);
    set
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn read(set: Value) -> LeaderWorkerSet {
    LeaderWorkerSet::read(set).unwrap()
}

fn serving(set: Value) -> Value {
    read(set).to_serving()
}

#[test]
fn groups_workers_and_templates_are_those_of_the_set() {
    let (worker, leader) = (pod("worker"), pod("leader"));
    let table = [
        ("nothing is said", json!({}), (1, 0, &worker)),
        ("so many groups", json!({"replicas": 3}), (3, 0, &worker)),
        ("none", json!({"replicas": 0}), (0, 0, &worker)),
        ("a leader and workers", json!({"leaderWorkerTemplate": {"size": 4}}), (1, 3, &worker)),
        ("a leader alone", json!({"leaderWorkerTemplate": {"size": 1}}), (1, 0, &worker)),
        ("no size", json!({"leaderWorkerTemplate": {"size": 0}}), (1, 0, &worker)),
        ("less", json!({"leaderWorkerTemplate": {"size": i32::MIN}}), (1, 0, &worker)),
        (
            "a template for leaders",
            json!({"leaderWorkerTemplate": {"size": 2, "leaderTemplate": leader}}),
            (1, 1, &leader),
        ),
        (
            "no template for leaders",
            json!({"leaderWorkerTemplate": {"leaderTemplate": null}}),
            (1, 0, &worker),
        ),
    ];
    for (what, spec, (groups, workers, entry)) in table {
        let serving = serving(set(spec));
        let role = json!({"name": "default", "replicas": 1, "workerReplicas": workers,
            "entryTemplate": entry, "workerTemplate": worker, "maxUnavailable": 1});
        let expected = json!({"replicas": groups, "template": {"roles": [role]},
            "plugins": [{"name": "lws-standard-labels", "type": "BuiltIn"}]});
        assert_eq!(serving["spec"], expected, "{what}");
        let read = Serving::read(&serving).unwrap();
        assert_eq!((read.shape(), read.validate()), (Shape::Kthena, vec![]), "{what}");
    }
}

#[test]
fn the_serving_has_the_name_of_the_set_and_goes_with_it() {
    let metadata = serving(set(json!({})))["metadata"].take();
    let owner = json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "name": "llama", "uid": "u", "controller": true, "blockOwnerDeletion": true});
    let expected = json!({"name": "llama", "namespace": "serve", "ownerReferences": [owner]});
    assert_eq!(metadata, expected);
}

#[test]
fn of_metadata_pods_keep_labels_and_annotations_and_the_serving_what_asks_for_rank_tables() {
    let metadata = json!({"labels": {"app": "chat"}, "annotations": {"note": "yes"}});
    let mut with = metadata.clone();
    with["creationTimestamp"] = Value::Null;
    let mut set = set(json!({"leaderWorkerTemplate": {"workerTemplate": {"metadata": with}}}));
    set["metadata"]["labels"] = json!({"team": "a"});
    set["metadata"]["annotations"] =
        json!({"kthena.io/ranktable-template": "t", "kubectl.kubernetes.io/last": "{}"});
    let serving = serving(set);
    let role = &serving["spec"]["template"]["roles"][0];
    assert_eq!(role["entryTemplate"]["metadata"], metadata);
    assert_eq!(role["workerTemplate"]["metadata"], metadata);
    assert_eq!(serving["metadata"]["annotations"], json!({"kthena.io/ranktable-template": "t"}));
    assert!(serving["metadata"].get("labels").is_none());
}

#[test]
fn the_scheduler_of_the_leader_places_all_pods() {
    let named = |leader: &str, worker: &str| {
        let spec = |name: &str| json!({"spec": {"schedulerName": name}});
        let templates = json!({"leaderTemplate": spec(leader), "workerTemplate": spec(worker)});
        read(set(json!({ "leaderWorkerTemplate": templates })))
    };
    let both = named("muster-scheduler", "muster-scheduler");
    assert_eq!(both.to_serving()["spec"]["schedulerName"], "muster-scheduler");
    assert_eq!(both.ignored(), [""; 0]);
    let other = named("muster-scheduler", "volcano");
    assert_eq!(other.to_serving()["spec"]["schedulerName"], "muster-scheduler");
    let [why] = &other.ignored()[..] else { panic!("{:?}", other.ignored()) };
    assert!(why.contains("schedulerName=volcano: muster-scheduler places all pods"), "{why}");
}

#[test]
fn what_has_no_counterpart_is_named_and_what_happens_anyway_is_not() {
    let rolling = |of: Value| json!({"rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": of}});
    let template = |of: Value| json!({ "leaderWorkerTemplate": of });
    let said = |text: &str| {
        let container = json!([{"name": "w", "args": [text]}]);
        template(json!({"workerTemplate": {"spec": {"containers": container}}}))
    };
    let table = [
        (json!({"startupPolicy": "LeaderCreated"}), ""),
        (json!({"startupPolicy": "LeaderReady"}), "spec.startupPolicy=LeaderReady: "),
        (template(json!({"restartPolicy": "RecreateGroupOnPodRestart"})), ""),
        (
            template(json!({"restartPolicy": "None"})),
            "spec.leaderWorkerTemplate.restartPolicy=None: ",
        ),
        (
            template(json!({"subGroupPolicy": {"subGroupSize": 2}})),
            "spec.leaderWorkerTemplate.subGroupPolicy: ",
        ),
        (template(json!({"subGroupPolicy": null})), ""),
        (
            template(json!({"volumeClaimTemplates": []})),
            "spec.leaderWorkerTemplate.volumeClaimTemplates: ",
        ),
        (rolling(json!({"partition": 0, "maxUnavailable": 1, "maxSurge": 0})), ""),
        (
            rolling(json!({"partition": 2})),
            "spec.rolloutStrategy.rollingUpdateConfiguration.partition=2: ",
        ),
        (
            rolling(json!({"maxUnavailable": "50%"})),
            "rollingUpdateConfiguration.maxUnavailable=50%: ",
        ),
        (rolling(json!({"maxSurge": 1})), "rollingUpdateConfiguration.maxSurge=1: "),
        (json!({"networkConfig": {"subdomainPolicy": "UniquePerReplica"}}), "spec.networkConfig: "),
        (json!({"brandNew": true}), "spec.brandNew: it is not taken over"),
        (said("--head=$(ENTRY_ADDRESS)"), ""),
        (said("--head=$(LWS_LEADER_ADDRESS)"), "LWS_LEADER_ADDRESS: pods have ENTRY_ADDRESS"),
    ];
    for (spec, expected) in table {
        let ignored = read(set(spec.clone())).ignored();
        let fits = match expected {
            "" => ignored.is_empty(),
            text => ignored.len() == 1 && ignored.iter().all(|why| why.contains(text)),
        };
        assert!(fits, "{spec}: {ignored:?}");
    }
    let mut exclusive = set(json!({}));
    exclusive["metadata"]["annotations"] =
        json!({"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"});
    let ignored = read(exclusive).ignored();
    assert!(matches!(&ignored[..], [why] if why.contains("kai.scheduler/topology")), "{ignored:?}");
}

#[test]
fn what_cannot_be_read_names_the_field() {
    let table = [
        (json!({"replicas": "two"}), "spec.replicas"),
        (json!({"leaderWorkerTemplate": {"size": {}}}), "spec.leaderWorkerTemplate.size"),
        (
            json!({"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": {}}}}}),
            "spec.leaderWorkerTemplate.workerTemplate.spec.containers",
        ),
        (
            json!({"leaderWorkerTemplate": {"leaderTemplate": {"spec": {"containers": [1]}}}}),
            "spec.leaderWorkerTemplate.leaderTemplate.spec.containers[0]",
        ),
    ];
    for (spec, field) in table {
        let mut set = set(json!({}));
        // Wins over what the set has, whatever its type.
        merge(&mut set["spec"], spec);
        let error = LeaderWorkerSet::read(set).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(error.to_string().starts_with("LeaderWorkerSet serve/llama cannot be read: "));
    }
    assert!(LeaderWorkerSet::read(json!({"kind": KIND})).is_err());
}

#[test]
fn the_definition_fills_nothing_into_roles_and_plugins() {
    let serving = serving(set(json!({"leaderWorkerTemplate": {"size": 2}})));
    let mut filled = serving.clone();
    crate::defaults::fill(Shape::Kthena, &mut filled);
    for list in ["/spec/template/roles", "/spec/plugins"] {
        assert_eq!(filled.pointer(list), serving.pointer(list), "{list} is one value");
    }
}

#[test]
fn the_example_of_the_documentation_is_followed_in_all_its_fields() {
    let text = include_str!("../../../../docs/examples/leaderworkerset.yaml");
    let set = read(serde_saphyr::from_str(text).unwrap());
    assert_eq!(set.ignored(), [""; 0]);
    let serving = Serving::read(&set.to_serving()).unwrap();
    assert_eq!(serving.validate(), vec![]);
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"type": kind, "status": status, "reason": "R", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn observed(generation: i64, status: Value) -> ModelServing {
    let mut serving = json!({"metadata": {"name": "llama", "generation": 5}, "status": status});
    serving["status"]["observedGeneration"] = generation.into();
    serde_json::from_value(serving).unwrap()
}

#[test]
fn the_set_says_of_itself_what_its_serving_says() {
    let said = json!({"replicas": 3, "availableReplicas": 2, "updatedReplicas": 1,
        "conditions": [condition("Progressing", "True")]});
    let mut set = set(json!({}));
    let status = read(set.clone()).status(&observed(5, said.clone())).unwrap();
    let mut progressing = condition("Progressing", "True");
    progressing["observedGeneration"] = json!(3);
    let selector =
        "leaderworkerset.sigs.k8s.io/name=llama,leaderworkerset.sigs.k8s.io/worker-index=0";
    let expected = json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1,
        "hpaPodSelector": selector, "conditions": [progressing]});
    assert_eq!(status, expected);
    set["status"] = status;
    assert_eq!(read(set.clone()).status(&observed(5, said)), None, "nothing differs");
    let later = json!({"replicas": 3, "availableReplicas": 3, "updatedReplicas": 3,
        "conditions": [condition("Progressing", "False"), condition("Available", "True")]});
    let old = read(set.clone()).status(&observed(4, later.clone())).unwrap();
    assert_eq!(old["readyReplicas"], 3);
    assert_eq!(old["conditions"], expected["conditions"], "they are of another spec");
    let new = read(set).status(&observed(5, later)).unwrap();
    let kinds: Vec<_> = new["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (&it["type"], &it["status"]))
        .collect();
    assert_eq!(
        kinds,
        [(&json!("Progressing"), &json!("False")), (&json!("Available"), &json!("True"))]
    );
}

#[test]
fn fields_and_conditions_of_others_stay_and_a_serving_without_a_status_says_nothing() {
    let mut set = set(json!({}));
    set["status"] = json!({"other": 1, "conditions": [condition("Paused", "True")]});
    let said = observed(5, json!({"conditions": [condition("Available", "True")]}));
    let status = read(set.clone()).status(&said).unwrap();
    assert_eq!(status["other"], 1);
    assert_eq!(status["conditions"].as_array().map(Vec::len), Some(2));
    let silent = ModelServing { status: None, ..said };
    assert_eq!(read(set).status(&silent), None);
}

#[test]
fn the_plugin_of_such_servings_is_one_that_there_is() {
    let serving: ModelServing = serde_json::from_value(serving(set(json!({})))).unwrap();
    assert!(Chain::read(&serving.spec.plugins).is_ok());
}

#[test]
fn a_serving_is_the_sets_if_the_set_controls_it_or_has_left_it_behind() {
    let owner = |kind: &str, name: &str, uid: &str, controls: bool| json!({"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": controls}]});
    let applied =
        |manager: &str| json!({"managedFields": [{"manager": manager, "operation": "Apply"}]});
    let another = |text: &str| Ownership::Another(text.to_owned());
    let table = [
        (owner(KIND, "llama", "u", true), Ownership::Ours),
        (owner(KIND, "llama", "before", true), Ownership::Leaving),
        (owner(KIND, "other", "o", true), another("belongs to LeaderWorkerSet other")),
        (owner("App", "llama", "a", true), another("belongs to App llama")),
        (owner(KIND, "llama", "u", false), another("has no owner")),
        (json!({}), another("has no owner")),
        (applied("kubectl"), another("has no owner")),
        (applied("muster"), Ownership::Ours),
    ];
    let set = read(set(json!({})));
    for (metadata, expected) in table {
        let serving = serde_json::from_value(metadata.clone()).unwrap();
        assert_eq!(set.ownership(&serving, "muster"), expected, "{metadata}");
    }
}
