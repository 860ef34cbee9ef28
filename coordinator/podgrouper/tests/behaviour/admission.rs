//! Definitions that an API server takes, and rules beside them.

use muster_objects::schema::crd;
use muster_podgrouper::Object;
use muster_podgrouper::admission::pod::Sharing;
use muster_podgrouper::admission::strict::Strict;
use muster_podgrouper::admission::{pod_group, queue};
use muster_podgrouper::objects::Given;
use serde_json::{Value, json};

use crate::build::pod;
use crate::definitions;

#[test]
fn an_api_server_takes_all_definitions() {
    for (kind, _) in definitions::ALL {
        let definition = definitions::definition(kind);
        assert_eq!(crd::validate_crd(&definition), [], "{kind}");
        assert_eq!(definition["spec"]["names"]["kind"], kind);
        definitions::schema(kind);
    }
}

#[test]
fn a_bind_request_keeps_what_drivers_say_and_knows_its_own_fields() {
    let allocation = json!({"devices": {"results": [{"driver": "d", "new": true}]}});
    let spec = json!({"podName": "p", "selectedNode": "n", "receivedResourceType": "Fraction",
        "receivedGPU": {"count": 1, "portion": "0.50"}, "selectedGPUGroups": ["g"],
        "resourceClaimAllocations": [{"name": "c", "allocation": allocation}]});
    let mut request = json!({"apiVersion": "scheduling.run.ai/v1alpha2", "kind": "BindRequest",
        "metadata": {"name": "p", "namespace": "a"}, "spec": spec});
    let before = request.clone();
    assert_eq!(definitions::complete("BindRequest", &mut request, None), []);
    assert_eq!(request, before);
    request["spec"]["receivedGPU"]["count"] = json!("one");
    let errors = definitions::refused("BindRequest", &request, None);
    assert_eq!(definitions::class(&errors[0]), "type");
}

fn group(spec: Value) -> Object {
    Object::new(json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "a"}, "spec": spec}))
}

#[test]
fn pods_counted_on_an_inner_part_are_refused_at_first_and_warned_of_later() {
    let spec = json!({"minMember": 2, "subGroups": [{"name": "all", "minMember": 2},
        {"name": "one", "minMember": 2, "parent": "all"}]});
    let refused = pod_group::check(&group(spec.clone()), false).unwrap_err();
    assert_eq!(refused.class, "min-member-on-parent");
    assert_eq!(&*refused.field, "spec.subGroups[0].minMember");
    let warnings = pod_group::check(&group(spec), true).unwrap();
    assert_eq!(warnings.len(), 1);
}

#[test]
fn as_in_kai_0_12_parts_need_not_count_pods_unless_the_group_counts_parts() {
    let uncounted =
        json!({"minMember": 2, "subGroups": [{"name": "a"}, {"name": "b", "minMember": 1}]});
    let refused = pod_group::check(&group(uncounted.clone()), false).unwrap_err();
    assert_eq!(refused.class, "leaf-without-min-member");
    let warnings = pod_group::check_leniently(&group(uncounted.clone()), false).unwrap();
    assert_eq!(warnings, ["spec.subGroups[0].minMember: a does not say how many pods it needs"]);
    let inner = json!({"minMember": 2, "subGroups": [{"name": "all", "minMember": 2},
        {"name": "one", "minMember": 2, "parent": "all"}]});
    assert_eq!(pod_group::check_leniently(&group(inner), false).unwrap().len(), 1);
    let mut newer = uncounted;
    newer["subGroups"] = json!([{"name": "a"}, {"name": "b", "minSubGroup": 1},
        {"name": "c", "parent": "b", "minMember": 1}]);
    assert!(pod_group::check_leniently(&group(newer), false).is_err(), "a field of newer versions");
    let twice = json!({"subGroups": [{"name": "a"}, {"name": "a"}]});
    let refused = pod_group::check_leniently(&group(twice), false).unwrap_err();
    assert_eq!(refused.class, "duplicate-subgroup", "KAI 0.12 refuses it, too");
}

#[test]
fn a_long_chain_of_parts_and_a_circle_at_its_end_are_told_apart() {
    let part = |at: usize| match at {
        0 => json!({"name": "p0", "minSubGroup": 1}),
        9_999 => json!({"name": "p9999", "minMember": 1, "parent": "p9998"}),
        _ => json!({"name": format!("p{at}"), "minSubGroup": 1, "parent": format!("p{}", at - 1)}),
    };
    let mut parts: Vec<Value> = (0..10_000).map(part).collect();
    assert_eq!(pod_group::check(&group(json!({"subGroups": parts})), false), Ok(Vec::new()));
    parts[0]["parent"] = json!("p9998");
    let refused = pod_group::check(&group(json!({"subGroups": parts})), false).unwrap_err();
    assert_eq!(refused.class, "subgroup-cycle");
}

#[test]
fn a_queue_that_shrinks_below_its_children_is_warned_of() {
    let queue = |name: &str, cpu: i64, children: Value| {
        json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name},
            "spec": {"resources": {"cpu": {"quota": cpu}, "gpu": {"quota": 1}}},
            "status": {"childQueues": children}})
    };
    let parent = Object::new(queue("top", 10, json!(["a", "b", "gone"])));
    let children = ["a", "b"].map(|name| Object::new(queue(name, 20, json!([]))));
    let warnings = queue::check(&parent, Some(&parent), &Given::new(children), true).unwrap();
    assert_eq!(warnings.len(), 4, "{warnings:?}");
}

#[test]
fn a_pod_that_is_dressed_twice_is_dressed_once() {
    let mut shared = pod("p", json!({}), None);
    shared["metadata"]["annotations"] = json!({"gpu-fraction": "0.5"});
    let sharing = Sharing::default();
    let once = sharing.mutate(&Object::new(shared), "a", "abcdefg").unwrap();
    assert_eq!(once["spec"]["runtimeClassName"], "nvidia");
    let twice = sharing.mutate(&Object::new(once.clone()), "a", "zzzzzzz").unwrap();
    assert_eq!(twice, once);
}

#[test]
fn an_init_container_may_have_the_device_and_the_pod_learns_its_namespace() {
    let mut shared = pod("p", json!({}), None);
    shared["metadata"]["annotations"] =
        json!({"gpu-memory": "1024", "gpu-fraction-container-name": "warm"});
    shared["metadata"].as_object_mut().unwrap().remove("namespace");
    shared["spec"]["initContainers"] = json!([{"name": "warm"}]);
    let dressed = Sharing::default().mutate(&Object::new(shared), "b", "abcdefg").unwrap();
    assert_eq!(dressed["metadata"]["namespace"], "b");
    let from = &dressed["spec"]["initContainers"][0]["envFrom"][0]["configMapRef"]["name"];
    assert_eq!(from, "p-abcdefg-shared-gpu-i0-evar");
    assert_eq!(dressed["spec"]["containers"][0].get("env"), None);
}

fn queue_below(name: &str, parent: &str) -> Object {
    Object::new(json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
        "metadata": {"name": name}, "spec": {"parentQueue": parent, "resources": {}}}))
}

#[test]
fn a_group_of_an_unknown_queue_is_refused_unless_it_was_taken_before() {
    let (strict, given) = (Strict::default(), Given::new([queue_below("known", "")]));
    let (known, ghost) = (group(json!({"queue": "known"})), group(json!({"queue": "ghost"})));
    assert_eq!(strict.pod_group(&known, None, &given), Ok(()));
    assert_eq!(strict.pod_group(&ghost, None, &given).unwrap_err().class, "queue-unknown");
    assert_eq!(strict.pod_group(&ghost, Some(&known), &given).unwrap_err().class, "queue-unknown");
    assert_eq!(strict.pod_group(&ghost, Some(&ghost), &given), Ok(()));
    assert_eq!(Strict::OFF.pod_group(&ghost, None, &given), Ok(()));
}

#[test]
fn groups_that_are_too_large_are_refused() {
    let strict = Strict { most_parts: 1, most_pods: 4, ..Strict::default() };
    let refused = |spec: Value| strict.pod_group(&group(spec), None, &Given::default());
    let parts = json!([{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]);
    assert_eq!(refused(json!({"subGroups": parts})).unwrap_err().class, "too-many-parts");
    assert_eq!(refused(json!({"minMember": 5})).unwrap_err().class, "too-many-pods");
    let one = json!([{"name": "a", "minMember": 5}]);
    assert_eq!(refused(json!({"subGroups": one})).unwrap_err().class, "too-many-pods");
    assert_eq!(refused(json!({"minMember": 4})), Ok(()));
}

#[test]
fn no_queue_is_above_itself_and_its_parent_is_there() {
    let given = Given::new([queue_below("a", "b"), queue_below("b", "c"), queue_below("top", "")]);
    let class =
        |queue: Object| Strict::default().queue(&queue, &given).map(drop).map_err(|e| e.class);
    assert_eq!(class(queue_below("x", "top")), Ok(()));
    assert_eq!(class(queue_below("x", "x")), Err("queue-cycle"));
    assert_eq!(class(queue_below("c", "a")), Err("queue-cycle"));
    assert_eq!(class(queue_below("x", "ghost")), Err("parent-queue-missing"));
}

#[test]
fn a_pod_names_a_group_of_its_own_namespace() {
    let mut member = pod("p", json!({}), None);
    member["metadata"]["annotations"] = json!({"pod-group-name": "other/g"});
    let member = Object::new(member);
    let refused = Strict::default().pod(&member).unwrap_err();
    assert_eq!(refused.class, "group-of-other-namespace");
    assert_eq!(Strict::OFF.pod(&member), Ok(()));
}

#[test]
fn a_shard_and_a_config_of_kai_keep_all_their_fields() {
    let shard = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard",
        "metadata": {"name": "default"}, "spec": {
            "args": {"full-hierarchy-fairness": "false"}, "placementStrategy": {"gpu": "spread", "cpu": "binpack"},
            "partitionLabelValue": "a", "queueDepthPerAction": {"reclaim": 10},
            "minRuntime": {"preemptMinRuntime": "5m", "reclaimMinRuntime": "10m"}, "kValue": 0.5,
            "usageDBConfig": {"clientType": "prometheus", "connectionString": "http://p:9090",
                "connectionStringEnvVar": "P", "usageParams": {"halfLifePeriod": "10m", "windowSize": "1h",
                    "windowType": "tumbling", "tumblingWindowStartTime": "2026-01-01T00:00:00Z",
                    "cronString": "@daily", "fetchInterval": "1m", "stalenessPeriod": "5m",
                    "waitTimeout": "1m", "extraParams": {"queryResolution": "1m"}}},
            "scenarioSearchBudgets": {"maxJobSearchDuration": "4m"},
            "plugins": {"numa": {"enabled": true, "priority": 7, "arguments": {"ignoreList": "cpu"}}},
            "actions": {"consolidation": {"enabled": false, "priority": 3}},
            "goMemLimit": "1Gi", "goMemLimitRatio": 0.9},
        "status": {"conditions": [{"type": "Deployed", "status": "True", "reason": "deployed",
            "message": "m", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let config = json!({"apiVersion": "kai.scheduler/v1", "kind": "Config",
        "metadata": {"name": "kai-config"}, "spec": {"namespace": "kai-scheduler",
            "global": {"schedulerName": "kai-scheduler", "tolerations": [{"operator": "Exists"}]},
            "scheduler": {"service": {"enabled": false, "image": {"name": "scheduler"}}, "replicas": 1},
            "admission": {"gpuSharing": true, "webhook": {"port": 443}},
            "nodeScaleAdjuster": {"args": {"gpuMemoryToFractionRatio": 0.1}}},
        "status": {"conditions": []}});
    for (kind, object) in [("SchedulingShard", shard), ("Config", config)] {
        let mut kept = object.clone();
        assert_eq!(definitions::complete(kind, &mut kept, None), [], "{kind}");
        assert_eq!(kept, object, "{kind}");
    }
    let odd = json!({"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard",
        "metadata": {"name": "default"}, "spec": {"kValue": "much"}});
    assert_eq!(definitions::class(&definitions::refused("SchedulingShard", &odd, None)[0]), "type");
}

#[test]
fn a_queue_may_name_kinds_of_accelerators_and_nothing_else() {
    let numbers = json!({"quota": 1, "limit": 2, "overQuotaWeight": 1});
    let queue = |name: &str| {
        Object::new(json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue",
            "metadata": {"name": "q"}, "spec": {"resources": {"gpu": numbers, name: numbers}}}))
    };
    let objects = Given::new(Vec::<Object>::new());
    for kind in
        ["huawei.com/Ascend910", "huawei.com/Ascend310P", "ascend.com/npu", "nvidia.com/gpu"]
    {
        let mut written = queue(kind).raw().clone();
        assert_eq!(definitions::complete("Queue", &mut written, None), [], "{kind}");
        assert_eq!(written["spec"]["resources"][kind], numbers, "{kind}");
        queue::check(&queue(kind), None, &objects, false).unwrap();
        assert_eq!(Strict::default().queue(&queue(kind), &objects), Ok(Vec::new()));
    }
    for none in ["huawei.com/Ascned910", "huawei.com/Ascend910-16c", "gpus"] {
        let refused = Strict::default().queue(&queue(none), &objects).unwrap_err();
        assert_eq!(refused.class, "resources-unknown");
        assert_eq!(&*refused.field, format!("spec.resources[{none}]"));
        let [warning] = &Strict::OFF.queue(&queue(none), &objects).unwrap()[..] else {
            panic!("{none}")
        };
        assert!(warning.contains(none) && warning.ends_with("no effect"), "{warning}");
    }
}
