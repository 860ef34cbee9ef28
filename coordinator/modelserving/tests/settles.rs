//! Whatever happens, it comes to rest: with what is asked for, and with nothing left to do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "modelserving_conformance/cluster.rs"]
mod cluster;

use std::time::Duration;

use cluster::Cluster;
use muster_modelserving::api::{ModelServing, Spec};
use muster_modelserving::seen::PodGroupApi;
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a person asks for.
#[derive(Clone, Debug)]
struct Wish {
    groups: i32,
    roles: Vec<(i32, i32)>,
    image: u8,
    by_role: bool,
    away: i32,
    partition: Option<i32>,
    policy: &'static str,
    grace: i64,
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Deed {
    Ready(usize),
    Fail(usize),
    Restart(usize),
    Lose(usize),
    Leave(usize),
    LoseService(usize),
    LosePodGroup(usize),
    Terminated(usize),
    Refuse(usize),
    AllReady,
    AllTerminated,
    Wish(Wish),
    NewController,
    Look,
    Wait,
}

fn wish() -> impl Strategy<Value = Wish> {
    let roles = proptest::collection::vec((0..3i32, 0..2i32), 1..3);
    let policy = prop_oneof![Just("RoleRecreate"), Just("ServingGroupRecreate"), Just("None")];
    let partition = proptest::option::weighted(0.2, 0..3i32);
    (0..4i32, roles, 0..3u8, any::<bool>(), 1..3i32, partition, policy, 0..2i64).prop_map(
        |(groups, roles, image, by_role, away, partition, policy, grace)| Wish {
            groups,
            roles,
            image,
            by_role,
            away,
            partition,
            policy,
            grace,
        },
    )
}

fn deed() -> impl Strategy<Value = Deed> {
    let at = 0..30usize;
    prop_oneof![
        4 => at.clone().prop_map(Deed::Ready),
        2 => at.clone().prop_map(Deed::Fail),
        2 => at.clone().prop_map(Deed::Restart),
        2 => at.clone().prop_map(Deed::Lose),
        1 => at.clone().prop_map(Deed::Leave),
        2 => (1..4usize).prop_map(Deed::Refuse),
        1 => at.clone().prop_map(Deed::LoseService),
        1 => at.clone().prop_map(Deed::LosePodGroup),
        3 => at.prop_map(Deed::Terminated),
        3 => Just(Deed::AllReady),
        2 => Just(Deed::AllTerminated),
        3 => wish().prop_map(Deed::Wish),
        1 => Just(Deed::NewController),
        1 => Just(Deed::Look),
        1 => Just(Deed::Wait),
    ]
}

fn spec(wish: &Wish) -> Spec {
    let pod =
        |image: u8| json!({"spec": {"containers": [{"name": "e", "image": format!("e:{image}")}]}});
    let role = |(at, (replicas, workers)): (usize, &(i32, i32))| {
        json!({"name": format!("r{at}"), "replicas": replicas, "workerReplicas": workers,
            "maxUnavailable": wish.away, "entryTemplate": pod(wish.image), "workerTemplate": pod(0)})
    };
    let mut strategy = json!({"type": "RoleRollingUpdate"});
    if !wish.by_role {
        let update = json!({"maxUnavailable": wish.away, "partition": wish.partition});
        strategy =
            json!({"type": "ServingGroupRollingUpdate", "rollingUpdateConfiguration": update});
    }
    let roles: Vec<Value> = wish.roles.iter().enumerate().map(role).collect();
    serde_json::from_value(json!({
        "replicas": wish.groups, "schedulerName": "volcano", "recoveryPolicy": wish.policy,
        "rolloutStrategy": strategy,
        "template": {"restartGracePeriodSeconds": wish.grace, "roles": roles},
    }))
    .unwrap()
}

fn terminating(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.pods.iter();
    let leaving = pods.filter(|(_, pod)| pod.metadata.deletion_timestamp.is_some());
    leaving.map(|(name, _)| name.clone()).collect()
}

fn standing(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.pods.iter();
    let standing = pods.filter(|(_, pod)| pod.metadata.deletion_timestamp.is_none());
    standing.map(|(name, _)| name.clone()).collect()
}

fn some(names: Vec<String>, at: usize) -> Option<String> {
    let count = names.len().max(1);
    names.into_iter().nth(at % count)
}

fn status(cluster: &mut Cluster, name: &str, status: Value) {
    cluster.change_pod(name, |pod| pod.status = serde_json::from_value(status).unwrap());
}

fn act(cluster: &mut Cluster, deed: &Deed) {
    match deed {
        Deed::Ready(at) => {
            some(standing(cluster), *at).into_iter().for_each(|name| cluster.pod_is_ready(&name));
        }
        Deed::Fail(at) => {
            let failed = json!({"phase": "Failed"});
            some(standing(cluster), *at)
                .into_iter()
                .for_each(|it| status(cluster, &it, failed.clone()));
        }
        Deed::Restart(at) => {
            let containers = json!([{"name": "e", "restartCount": 1, "ready": false, "image": "", "imageID": ""}]);
            let again = json!({"phase": "Running", "containerStatuses": containers});
            some(standing(cluster), *at)
                .into_iter()
                .for_each(|it| status(cluster, &it, again.clone()));
        }
        Deed::Lose(at) => {
            let all = cluster.pods.keys().cloned().collect();
            some(all, *at).into_iter().for_each(|name| cluster.pod_goes(&name));
        }
        Deed::Leave(at) => {
            some(standing(cluster), *at).into_iter().for_each(|name| cluster.pod_leaves(&name));
        }
        Deed::Refuse(times) => cluster.stubborn = *times,
        Deed::LoseService(at) => {
            let all = cluster.services.keys().cloned().collect();
            some(all, *at).into_iter().for_each(|name| cluster.service_goes(&name));
        }
        Deed::LosePodGroup(at) => {
            let all = cluster.pod_groups.keys().cloned().collect();
            some(all, *at).into_iter().for_each(|name| cluster.pod_group_goes(&name));
        }
        Deed::Terminated(at) => {
            some(terminating(cluster), *at).into_iter().for_each(|name| cluster.pod_goes(&name));
        }
        Deed::AllReady => {
            standing(cluster).iter().for_each(|name| cluster.pod_is_ready(name));
        }
        Deed::AllTerminated => {
            terminating(cluster).iter().for_each(|name| cluster.pod_goes(name));
        }
        Deed::Wish(wish) => cluster.change_spec(spec(wish)),
        Deed::NewController => cluster.start(),
        Deed::Look => cluster.queue(),
        Deed::Wait => cluster.wait(Duration::from_secs(2)),
    }
    cluster.settle();
}

fn started(wish: &Wish, gang: bool, graceful: bool) -> Cluster {
    let api = if gang { PodGroupApi::SubGroups } else { PodGroupApi::Absent };
    let mut serving = ModelServing { spec: spec(wish), ..ModelServing::default() };
    serving.metadata.name = Some("s".to_owned());
    serving.metadata.namespace = Some("n".to_owned());
    serving.metadata.uid = Some("u".to_owned());
    let mut cluster = Cluster::new(serving, api, graceful);
    cluster.start();
    cluster.settle();
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_comes_to_rest_with_what_is_asked_for(
        first in wish(),
        deeds in proptest::collection::vec(deed(), 0..25),
        gang in any::<bool>(),
        graceful in any::<bool>(),
    ) {
        let mut cluster = started(&first, gang, graceful);
        for deed in &deeds {
            act(&mut cluster, deed);
        }
        cluster.stubborn = 0;
        let end = [Deed::Wait, Deed::Look, Deed::AllTerminated, Deed::AllReady];
        for _ in 0..20 {
            end.iter().for_each(|deed| act(&mut cluster, deed));
        }
        let plan = cluster.plan();
        prop_assert!(plan.steps.is_empty(), "{:?}", plan.steps);
        prop_assert!(terminating(&cluster).is_empty());

        let wish = deeds.iter().rev().find_map(|deed| match deed {
            Deed::Wish(wish) => Some(wish),
            _ => None,
        });
        let last = wish.unwrap_or(&first);
        let status = cluster.serving.as_ref().unwrap().status.clone().unwrap();
        prop_assert_eq!(status.replicas, i64::from(last.groups));
        if last.partition.is_none() || last.by_role {
            let pods: i32 = last.roles.iter().map(|(replicas, workers)| replicas * (workers + 1)).sum();
            prop_assert_eq!(cluster.pods.len(), usize::try_from(pods * last.groups).unwrap());
            prop_assert_eq!(status.updated_replicas, status.replicas);
            let available = status.conditions.iter().find(|it| it.kind == "Available").unwrap();
            prop_assert_eq!(&available.status, "True");
        }
    }

    /// Nobody asks for a look here: who starts in the middle of it must know when to look.
    #[test]
    fn a_new_controller_makes_up_for_what_was_on_its_way_out(
        first in wish(),
        second in wish(),
        leaving in proptest::collection::vec(0..30usize, 0..6),
        gang in any::<bool>(),
    ) {
        let whole = |wish| Wish { policy: "None", partition: None, ..wish };
        let (first, second) = (whole(first), whole(second));
        let mut cluster = started(&first, gang, true);
        act(&mut cluster, &Deed::AllReady);
        act(&mut cluster, &Deed::Wish(second.clone()));
        leaving.iter().for_each(|at| act(&mut cluster, &Deed::Leave(*at)));
        act(&mut cluster, &Deed::NewController);
        for _ in 0..20 {
            let end = [Deed::AllTerminated, Deed::Wait, Deed::AllReady];
            end.iter().for_each(|deed| act(&mut cluster, deed));
        }
        let pods: i32 = second.roles.iter().map(|(replicas, workers)| replicas * (workers + 1)).sum();
        prop_assert_eq!(cluster.pods.len(), usize::try_from(pods * second.groups).unwrap());
    }
}
