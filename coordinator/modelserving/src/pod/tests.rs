//! What a new pod has.

use super::*;

fn serving() -> ModelServing {
    serde_json::from_value(json!({
        "metadata": {"name": "llm", "namespace": "serve", "uid": "u"},
        "spec": {"schedulerName": "volcano"},
    }))
    .unwrap()
}

fn role(entry: Value) -> Role {
    serde_json::from_value(json!({"name": "server", "workerReplicas": 2, "entryTemplate": entry}))
        .unwrap()
}

fn pod(role: &Role, gang: bool, mutator: &dyn PodMutator) -> Value {
    let serving = serving();
    let chain = Chain::default();
    let maker = Maker { serving: &serving, shape: Shape::Kthena, gang, chain: &chain, mutator };
    let slot = Slot {
        serving: "llm",
        namespace: "serve",
        group: "llm-0",
        role: "server",
        role_id: "server-1",
        index: 0,
        size: 3,
        name: "llm-0-server-1-0",
        roles: &[],
    };
    make(&maker, &slot, &Source { role, revision: "r", hash: "h" }).unwrap()
}

#[test]
fn the_three_variables_come_last_and_win() {
    let env = json!([{"name": "WORKER_INDEX", "value": "9"}, {"name": "MODEL", "value": "m"}]);
    let role = role(json!({"spec": {
        "containers": [{"name": "engine", "env": env}], "initContainers": [{"name": "first"}],
    }}));
    let pod = pod(&role, false, &Plain);
    let names = |at: &str| -> Vec<String> {
        let env = pod.pointer(at).unwrap().as_array().unwrap();
        env.iter().map(|it| format!("{}={}", it["name"], it["value"]).replace('"', "")).collect()
    };
    let three = ["GROUP_SIZE=3", "ENTRY_ADDRESS=llm-0-server-1-0.serve", "WORKER_INDEX=0"];
    assert_eq!(names("/spec/containers/0/env"), [&["MODEL=m"], &three[..]].concat());
    assert_eq!(names("/spec/initContainers/0/env"), three);
}

#[test]
fn the_labels_of_a_template_win() {
    let role = role(json!({"metadata": {"labels": {naming::ROLE: "mine", "app": "chat"}}}));
    let pod = pod(&role, false, &Plain);
    assert_eq!(pod["metadata"]["labels"][naming::ROLE], "mine");
    assert_eq!(pod["metadata"]["labels"]["app"], "chat");
    assert_eq!(pod["metadata"]["labels"][naming::ENTRY], "true");
    assert_eq!(pod["metadata"].get("annotations"), None);
}

#[test]
fn a_gang_is_written_over_the_annotations_of_a_template() {
    let role = role(json!({"metadata": {"annotations": {naming::TASK: "mine", "a": "1"}}}));
    let annotations = pod(&role, true, &Plain)["metadata"]["annotations"].clone();
    let expected = json!({naming::TASK: "server-1", naming::POD_GROUP: "llm-0", "a": "1"});
    assert_eq!(annotations, expected);
}

#[test]
fn what_adorns_a_pod_comes_last() {
    struct Mark;
    impl PodMutator for Mark {
        fn pod(&self, slot: &Slot<'_>, pod: &mut Value) -> Result<(), String> {
            pod["spec"]["hostname"] = format!("{}-of-{}", slot.index, slot.size).into();
            Ok(())
        }
    }
    let pod = pod(&role(json!({})), false, &Mark);
    assert_eq!(pod["spec"]["hostname"], "0-of-3");
    assert_eq!(pod["spec"]["schedulerName"], "volcano");
}
