//! Laws that hold for all jobs, also odd ones.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::given::{Given, of_kind, runtime, trains};

fn policy() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        (-2..4i32).prop_map(|nodes| json!({"numNodes": nodes})),
        Just(json!({"torch": {}})),
        any::<bool>().prop_map(|launcher| json!({"mpi": {"runLauncherAsNode": launcher}})),
        Just(json!({"jax": {}})),
        Just(json!({"xgboost": {}})),
        Just(json!({"flux": {}})),
    ]
}

fn trainer() -> impl Strategy<Value = Value> {
    let nodes = proptest::option::of(0..4i32);
    let env = proptest::collection::btree_map("[A-C]", "[a-z]{0,2}", 0..3);
    let gpus = proptest::option::of("[0-9]{1,2}|[0-9]m|x");
    (nodes, env, gpus, any::<bool>()).prop_map(|(nodes, env, gpus, tune)| {
        let env: Vec<Value> =
            env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let mut trainer = json!({"env": env});
        if let Some(nodes) = nodes {
            trainer["numNodes"] = json!(nodes);
        }
        if let Some(gpus) = gpus {
            trainer["resourcesPerNode"] = json!({"limits": {"a.b/gpu": gpus}});
        }
        if tune {
            trainer["command"] = json!(["tune", "run"]);
        }
        trainer
    })
}

fn world() -> impl Strategy<Value = (Given, Value)> {
    let jobs =
        proptest::sample::subsequence(vec!["launcher", "node", "extra"], 0..=3).prop_shuffle();
    (policy(), jobs, proptest::option::of(trainer()), any::<bool>()).prop_map(
        |(ml, jobs, trainer, suspend)| {
            let jobs: Vec<Value> = jobs.into_iter().map(trains).collect();
            let mut spec = json!({"suspend": suspend});
            if let Some(trainer) = trainer {
                spec["trainer"] = trainer;
            }
            (Given::of([runtime(ml, json!(jobs))]), crate::given::job(spec))
        },
    )
}

proptest! {
    #[test]
    fn passes_settle((given, job) in world()) {
        let mut given = given;
        let mut job = job;
        let first = given.pass(&job);
        prop_assert_eq!(&first, &given.pass(&job), "the same twice");
        given.apply(&first);
        if let Some(status) = &first.status {
            job["status"] = json!(status);
        }
        let second = given.pass(&job);
        given.apply(&second);
        if let Some(status) = &second.status {
            job["status"] = json!(status);
        }
        let third = given.pass(&job);
        prop_assert!(third.status.is_none(), "{:?}", third.status);
        prop_assert_eq!(third.apply, second.apply, "what is applied again is as it was");
    }

    #[test]
    fn all_that_is_made_belongs_to_the_job_and_lies_beside_it((given, job) in world()) {
        let outcome = given.pass(&job);
        for object in &outcome.apply {
            prop_assert_eq!(&object["metadata"]["namespace"], "team");
            let owner = &object["metadata"]["ownerReferences"][0];
            prop_assert_eq!((&owner["uid"], &owner["controller"]), (&json!("u-1"), &json!(true)));
        }
        for job_set in of_kind(&outcome, "JobSet") {
            for job in job_set["spec"]["replicatedJobs"].as_array().into_iter().flatten() {
                let spec = &job["template"]["spec"];
                prop_assert_eq!(&spec["parallelism"], &spec["completions"]);
                for container in spec["template"]["spec"]["containers"].as_array().unwrap() {
                    let env = container["env"].as_array().into_iter().flatten();
                    let mut names: Vec<&str> = env.filter_map(|v| v["name"].as_str()).collect();
                    let all = names.len();
                    names.sort_unstable();
                    names.dedup();
                    prop_assert_eq!(names.len(), all, "each variable once");
                }
            }
        }
    }
}
