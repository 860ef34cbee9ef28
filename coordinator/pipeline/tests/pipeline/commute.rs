//! The order of plugins within a stage does not matter, to the last byte.

use muster_pipeline::Registry;
use serde_json::{Value, json};

use crate::given::{Given, NOW, job, runtime, trains};

/// Turns every list of plugins: backwards, or so many places on.
fn shuffled(turn: usize) -> Registry {
    let mut registry = Registry::standard();
    fn shuffle<T>(list: &mut [T], turn: usize) {
        match turn {
            0 => list.reverse(),
            _ => {
                let places = turn % list.len().max(1);
                list.rotate_left(places);
                if turn.is_multiple_of(2) {
                    list.reverse();
                }
            }
        }
    }
    shuffle(&mut registry.ml_policy, turn);
    shuffle(&mut registry.pod_group_policy, turn);
    shuffle(&mut registry.pod_spec, turn);
    shuffle(&mut registry.pod_network, turn);
    shuffle(&mut registry.builders, turn);
    shuffle(&mut registry.validators, turn);
    registry
}

fn worlds() -> Vec<(Given, Value)> {
    let trainer = json!({"numNodes": 2, "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}],
        "command": ["run"], "resourcesPerNode": {"requests": {"nvidia.com/gpu": 2}}});
    let policies = [
        json!(null),
        json!({"numNodes": 3}),
        json!({"torch": {}}),
        json!({"mpi": {"runLauncherAsNode": true}}),
        json!({"mpi": {"mpiImplementation": ""}}),
        json!({"jax": {}}),
        json!({"xgboost": {}}),
        json!({"flux": {}}),
    ];
    let template = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hccl"},
        "data": {"mount-path": "/etc/table", "filename": "hccl.json", "ranktable-template": "{}"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "kubeflow-trainer-webhook-cert"}, "stringData": {"ca.crt": "CA"}});
    let mut worlds = Vec::new();
    for ml in policies {
        let mut jobs = json!([trains("launcher"), trains("node")]);
        for each in jobs.as_array_mut().unwrap() {
            each["template"]["spec"]["template"]["spec"]["schedulerName"] =
                json!("muster-scheduler");
        }
        let mut runtime = runtime(ml, jobs);
        runtime["spec"]["podGroupPolicy"] = json!({"coscheduling": {}, "volcano": {}});
        let mut job = job(json!({"trainer": trainer}));
        job["metadata"]["annotations"] = json!({"muster.dev/ranktable-template": "hccl"});
        let mut given = Given::of([runtime, template.clone(), secret.clone()]);
        given.settings.train_job_status = true;
        worlds.push((given, job));
    }
    worlds
}

#[test]
fn a_pass_is_the_same_in_any_order_of_plugins() {
    for (given, job) in worlds() {
        let expected = given.pass(&job);
        assert!(!expected.apply.is_empty());
        for turn in 0..12 {
            let got = given.pass_with(&job, &shuffled(turn), NOW);
            let bytes = |objects: &[Value]| serde_json::to_string(objects).unwrap();
            assert!(bytes(&got.apply) == bytes(&expected.apply), "turn {turn} of {job}");
            assert!(got == expected, "turn {turn} of {job}");
        }
    }
}

#[test]
fn what_fails_is_the_same_in_any_order_of_plugins() {
    let ml = json!({"torch": {"envInjection": {"targets": [{"jobName": "x", "containerNames": ["y"]}]}},
        "mpi": {"mpiImplementation": ""}, "flux": {}});
    let given = Given::of([runtime(ml, json!([trains("node")]))]);
    let expected = given.pass(&job(json!({})));
    assert_eq!(expected.error.as_ref().unwrap().lines().count(), 4, "{:?}", expected.error);
    for turn in 0..12 {
        assert_eq!(given.pass_with(&job(json!({})), &shuffled(turn), NOW), expected);
    }
}
