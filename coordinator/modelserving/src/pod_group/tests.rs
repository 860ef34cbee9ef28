//! The numbers of a gang.

use super::*;

fn serving(least: Value) -> ModelServing {
    let pod = |cpu: &str| {
        json!({"spec": {
            "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "4Gi"}}}],
            "initContainers": [{"resources": {"requests": {"cpu": "100"}}}],
        }})
    };
    serde_json::from_value(json!({
        "metadata": {"name": "g", "namespace": "serve", "uid": "u"},
        "spec": {"schedulerName": "volcano", "template": {
            "gangPolicy": {"minRoleReplicas": least},
            "roles": [
                {"name": "prefill", "replicas": 2, "workerReplicas": 1,
                    "entryTemplate": pod("500m"), "workerTemplate": pod("1")},
                {"name": "decode", "replicas": 4, "workerReplicas": 0, "entryTemplate": pod("250m")},
            ],
        }},
    }))
    .unwrap()
}

fn spec(serving: &ModelServing, api: PodGroupApi) -> Value {
    match create(serving, Shape::Kthena, "g-0", api) {
        Write::Create(object) => object.body["spec"].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_policy_everybody_must_be_there() {
    let spec = spec(&serving(Value::Null), PodGroupApi::Plain);
    let expected = json!({"minMember": 8, "minResources": {"cpu": "4", "memory": "32Gi"}});
    assert_eq!(spec, expected);
}

#[test]
fn a_policy_asks_for_fewer_and_never_for_more() {
    let spec = spec(&serving(json!({"prefill": 9, "decode": 1})), PodGroupApi::SubGroups);
    assert_eq!(spec["minMember"], 5);
    assert_eq!(spec["minResources"], json!({"cpu": "3250m", "memory": "20Gi"}));
    let least = |at: usize| spec["subGroupPolicy"][at]["minSubGroups"].clone();
    assert_eq!((least(0), least(1)), (json!(2), json!(1)));
    assert_eq!(spec["subGroupPolicy"][0]["subGroupSize"], 2);
}

#[test]
fn a_pod_group_that_says_it_all_is_left_alone() {
    let serving = serving(Value::Null);
    let spec = spec(&serving, PodGroupApi::Plain);
    let metadata = Default::default();
    let mut data = json!({"spec": spec, "status": {"phase": "Running"}});
    data["spec"]["minResources"]["cpu"] = json!("4000m");
    let thing = Default::default();
    let known = PodGroupSeen { thing, metadata: &metadata, data: &data };
    assert_eq!(update(&serving, PodGroupApi::Plain, &known), None);

    let mut queued = serving.clone();
    queued.metadata.annotations =
        Some([(muster_kube::names::VOLCANO_QUEUE.to_owned(), "prod".to_owned())].into());
    let Some(Write::Update(object)) = update(&queued, PodGroupApi::Plain, &known) else { panic!() };
    assert_eq!(object.body["spec"]["queue"], "prod");
    assert_eq!(object.body["status"]["phase"], "Running", "what others wrote stays");
}
