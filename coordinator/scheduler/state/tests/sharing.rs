//! Devices that pods share, case by case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use jiff::{SignedDuration, Timestamp};
use muster_scheduler::reason::Reason;
use muster_scheduler_state::object::name;
use muster_scheduler_state::reservation::{DEVICE, GROUP, Make, SharedDevice};
use muster_scheduler_state::{Bind, Cluster, Kind, Object, Outcome, Settings, Steps};
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    begin.saturating_add(SignedDuration::from_secs(seconds)).unwrap()
}

fn put(cluster: &mut Cluster, kind: &str, object: Value) {
    cluster.put(match kind {
        "Node" => Object::Node(serde_json::from_value(object).unwrap()),
        "Queue" => Object::Queue(serde_json::from_value(object).unwrap()),
        "PodGroup" => Object::PodGroup(serde_json::from_value(object).unwrap()),
        "PriorityClass" => Object::PriorityClass(serde_json::from_value(object).unwrap()),
        _ => Object::Pod(serde_json::from_value(object).unwrap()),
    });
}

/// A node of so many devices, and a queue.
fn cluster(devices: u32) -> Cluster {
    let mut cluster = Cluster::new(Settings::default());
    let node = json!({"metadata": {"name": "n"}, "status": {"allocatable":
        {"nvidia.com/gpu": devices.to_string(), "cpu": "64", "memory": "256Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}});
    put(&mut cluster, "Node", node);
    let free = json!({"quota": -1, "overQuotaWeight": 1, "limit": -1});
    put(
        &mut cluster,
        "Queue",
        json!({"metadata": {"name": "q"}, "spec": {"resources": {"cpu": free, "memory": free, "gpu": free}}}),
    );
    cluster
}

fn pod(pod: &str, annotations: Value) -> Value {
    let mut pod = json!({"metadata": {"name": pod, "namespace": "team", "uid": format!("{pod}-uid"),
            "annotations": {"pod-group-name": pod, "runai/shared-gpu-configmap": format!("{pod}-x-shared-gpu")}},
        "spec": {"schedulerName": "muster-scheduler", "containers": [{"name": "c"}]},
        "status": {"phase": "Pending"}});
    for (key, value) in annotations.as_object().unwrap() {
        pod["metadata"]["annotations"][key] = value.clone();
    }
    pod
}

fn half(name: &str) -> Value {
    pod(name, json!({"gpu-fraction": "0.5"}))
}

fn whole(name: &str) -> Value {
    let mut pod = pod(name, json!({}));
    pod["spec"]["containers"][0]["resources"] =
        json!({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}});
    pod
}

/// A pod with a group of its own.
fn submit(cluster: &mut Cluster, object: Value) {
    let name = object["metadata"]["name"].clone();
    let group = json!({"apiVersion": "scheduling.run.ai/v2alpha2",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"queue": "q", "minMember": 1}});
    put(cluster, "PodGroup", group);
    put(cluster, "Pod", object);
}

/// A reservation pod as the API server has it.
fn reservation(make: &Make, device: Option<&str>) -> Value {
    let mut pod = json!({"metadata": {"namespace": make.pod.0, "name": make.pod.1,
            "uid": format!("{}-uid", make.pod.1),
            "labels": {"app": "kai-resource-reservation", GROUP: make.spot.group}},
        "spec": {"nodeName": make.spot.node, "containers": [{"name": "device",
            "resources": {"requests": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"}});
    if let Some(device) = device {
        pod["metadata"]["annotations"] = json!({DEVICE: device});
    }
    pod
}

/// The pod as it is when its binding was done.
fn bound(mut pod: Value, bind: &Bind) -> Value {
    pod["spec"]["nodeName"] = bind.node.as_str().into();
    pod["status"]["phase"] = "Running".into();
    for (label, value) in &bind.share.as_ref().unwrap().labels {
        pod["metadata"]["labels"][label] = json!(value);
    }
    pod
}

/// Runs a cycle and what follows for shared devices.
fn cycle(cluster: &mut Cluster, now: Timestamp) -> (Vec<Bind>, Steps) {
    let cycle = cluster.cycle(now);
    (cycle.binds, cluster.share(now))
}

/// A pod is there on a shared device; its reservation, and its binding.
fn share(cluster: &mut Cluster, name: &str, device: &str, now: Timestamp) -> (Make, Bind) {
    submit(cluster, half(name));
    let (_, steps) = cycle(cluster, now);
    let make = steps.make[0].clone();
    put(cluster, "Pod", reservation(&make, Some(device)));
    let bind = cluster.share(now).binds[0].clone();
    put(cluster, "Pod", bound(half(name), &bind));
    (make, bind)
}

#[test]
fn a_pod_is_bound_when_its_device_is_held_and_known() {
    let mut cluster = cluster(8);
    submit(&mut cluster, half("a"));
    let (binds, steps) = cycle(&mut cluster, at(0));
    assert!(binds.is_empty() && steps.binds.is_empty());
    let make = &steps.make[0];
    assert_eq!(
        (&*make.pod.0, make.resource.as_str()),
        ("kai-resource-reservation", "nvidia.com/gpu")
    );
    // It is made, and nobody knows which device it has.
    put(&mut cluster, "Pod", reservation(make, None));
    assert!(cluster.share(at(1)).binds.is_empty());
    let unmarked: Vec<_> =
        cluster.reservations().unmarked().map(|(node, ..)| node.to_owned()).collect();
    assert_eq!(unmarked, ["n"]);
    // The agent says which; that is written down, and then it counts.
    cluster.found(&make.pod, &format!("{}-uid", make.pod.1), "GPU-7");
    let steps = cluster.share(at(2));
    assert!(steps.binds.is_empty());
    assert_eq!(steps.mark[0].device, "GPU-7");
    put(&mut cluster, "Pod", reservation(make, Some("GPU-7")));
    let binds = cluster.share(at(3)).binds;
    let told = binds[0].share.as_ref().unwrap();
    assert_eq!(told.devices, ["GPU-7"]);
    assert_eq!(told.maps["a-x-shared-gpu-0"]["NVIDIA_VISIBLE_DEVICES"], "GPU-7");
    assert_eq!(binds[0].annotations["received-resource-type"], "Fraction");
    assert!(cluster.share(at(4)).binds.is_empty(), "once");
}

#[test]
fn two_halves_are_one_device_and_a_third_is_another() {
    let mut cluster = cluster(8);
    let (make, first) = share(&mut cluster, "a", "GPU-0", at(0));
    submit(&mut cluster, half("b"));
    let (_, steps) = cycle(&mut cluster, at(1));
    assert!(steps.make.is_empty(), "the device is held");
    assert_eq!(steps.binds[0].share.as_ref().unwrap().devices, ["GPU-0"]);
    assert_eq!(steps.binds[0].gpu_groups, first.gpu_groups);
    submit(&mut cluster, half("c"));
    let (_, steps) = cycle(&mut cluster, at(2));
    assert_ne!(steps.make[0].spot, make.spot);
}

#[test]
fn the_last_one_out_releases_the_device_and_it_is_nobodys_until_it_has_gone() {
    let mut cluster = cluster(1);
    let (make, _) = share(&mut cluster, "a", "GPU-0", at(0));
    assert!(cluster.share(at(1)).release.is_empty());
    submit(&mut cluster, whole("w"));
    assert!(cycle(&mut cluster, at(2)).0.is_empty(), "its device is shared");
    cluster.remove(Kind::Pod, &name("team", "a"));
    let (binds, steps) = cycle(&mut cluster, at(3));
    assert!(binds.is_empty(), "the reservation still holds it");
    assert_eq!(steps.release[0].pod, make.pod);
    // An answer that was lost is asked for again.
    cluster.released(&make.pod, &steps.release[0].uid, &Outcome::Unsure("?".to_owned()), at(3));
    assert!(cycle(&mut cluster, at(3)).0.is_empty());
    assert_eq!(cluster.share(at(5)).release.len(), 1);
    cluster.remove(Kind::Pod, &make.pod);
    assert_eq!(cycle(&mut cluster, at(6)).0.len(), 1);
}

#[test]
fn the_next_leader_goes_on_with_what_is_there() {
    let mut before = cluster(8);
    let (make, bind) = share(&mut before, "a", "GPU-0", at(0));
    let mut after = cluster(8);
    put(&mut after, "Pod", reservation(&make, Some("GPU-0")));
    // Another that nobody uses: a leader died between two writes.
    let spot = SharedDevice::new("n", "orphan");
    let orphan = Make { pod: name("kai-resource-reservation", &spot.pod()), spot, ..make.clone() };
    put(&mut after, "Pod", reservation(&orphan, None));
    submit(&mut after, bound(half("a"), &bind));
    submit(&mut after, half("b"));
    let (_, steps) = cycle(&mut after, at(1));
    assert_eq!(steps.binds[0].share.as_ref().unwrap().devices, ["GPU-0"]);
    assert!(steps.make.is_empty());
    let released: Vec<_> = steps.release.iter().map(|one| one.pod.clone()).collect();
    assert_eq!(released, [orphan.pod]);
}

/// A pod that waits and says that it has a part of a device: its leader died before it was bound.
fn labelled(name: &str) -> Value {
    let mut pod = half(name);
    pod["metadata"]["labels"] = json!({GROUP: "of-before"});
    pod
}

#[test]
fn a_pod_that_the_leader_before_did_not_bind_is_no_sharer_any_more() {
    let mut cluster = cluster(1);
    share(&mut cluster, "a", "GPU-0", at(0));
    submit(&mut cluster, half("b"));
    let bind = cycle(&mut cluster, at(1)).1.binds.remove(0);
    put(&mut cluster, "Pod", bound(half("b"), &bind));
    submit(&mut cluster, labelled("c"));
    let (_, steps) = cycle(&mut cluster, at(2));
    assert!(steps.make.is_empty() && steps.binds.is_empty(), "there is no room for it");
    let pod = name("team", "c");
    assert_eq!(steps.clear.iter().map(|one| &one.pod).collect::<Vec<_>>(), [&pod]);
    assert!(cluster.share(at(2)).clear.is_empty(), "it is being done");
    cluster.cleared(&pod, "c-uid", &Outcome::Unsure("?".to_owned()), at(2));
    assert_eq!(
        cluster.next(),
        Some(at(2).saturating_add(SignedDuration::from_millis(500)).unwrap())
    );
    assert_eq!(cluster.share(at(3)).clear.len(), 1);
    cluster.cleared(&pod, "c-uid", &Outcome::Done, at(3));
    put(&mut cluster, "Pod", half("c"));
    assert!(cluster.share(at(120)).clear.is_empty());
    // Nobody else is touched: those that have a node are sharers.
    assert_eq!(cluster.reservations().len(), 1);
}

#[test]
fn a_pod_is_not_given_labels_while_old_ones_are_taken_off() {
    let mut cluster = cluster(8);
    share(&mut cluster, "a", "GPU-0", at(0));
    submit(&mut cluster, labelled("c"));
    assert_eq!(cluster.share(at(1)).clear.len(), 1);
    assert!(cycle(&mut cluster, at(1)).1.binds.is_empty(), "not before");
    cluster.cleared(&name("team", "c"), "c-uid", &Outcome::Lost("409".to_owned()), at(2));
    let binds = cluster.share(at(2)).binds;
    assert_eq!(binds[0].share.as_ref().unwrap().devices, ["GPU-0"]);
    assert!(cluster.share(at(9)).clear.is_empty(), "they are its own now");
}

#[test]
fn a_pod_whose_binding_is_given_up_is_no_sharer() {
    let mut cluster = cluster(8);
    share(&mut cluster, "a", "GPU-0", at(0));
    submit(&mut cluster, half("c"));
    let bind = cycle(&mut cluster, at(1)).1.binds.remove(0);
    let mut pod = half("c");
    pod["metadata"]["labels"] = json!({GROUP: bind.gpu_groups[0]});
    put(&mut cluster, "Pod", pod);
    assert!(cluster.share(at(1)).clear.is_empty(), "its binding is on its way");
    let failed = || Outcome::Failed("no".to_owned());
    let mut tries = 0;
    while cluster.binding_result(&bind.pod, &bind.uid, failed(), at(2)).is_none() {
        tries += 1;
        assert!(tries < 20);
    }
    assert_eq!(cluster.share(at(3)).clear.len(), 1);
}

#[test]
fn a_device_that_does_not_come_is_given_up_with_its_reason_and_released() {
    let mut cluster = cluster(8);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    put(&mut cluster, "Pod", reservation(&steps.make[0], None));
    assert!(cluster.share(at(39)).given_up.is_empty());
    let later = cluster.share(at(41));
    assert!(later.given_up[0].1.contains("muster-agent"), "{:?}", later.given_up);
    assert_eq!(later.release.len(), 1);
    let why = &cluster.cycle(at(42)).decisions.reasons["team/a"];
    assert!(why.message.contains("pod a was not bound"), "{}", why.message);
}

#[test]
fn a_reservation_that_cannot_be_made_is_tried_again_slower_and_slower() {
    let mut cluster = cluster(8);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let spot = steps.make[0].spot.clone();
    cluster.made(&spot, &Outcome::Failed("no such namespace".to_owned()), at(0));
    assert!(cluster.share(at(0)).make.is_empty());
    assert_eq!(cluster.share(at(1)).make.len(), 1);
    cluster.made(&spot, &Outcome::Done, at(1));
    assert!(cluster.share(at(9)).make.is_empty(), "the watch will show it");
}

#[test]
fn one_that_may_come_into_being_holds_its_device_when_nobody_needs_it_any_more() {
    let mut cluster = cluster(1);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    cluster.made(&make.spot, &Outcome::Unsure("no answer".to_owned()), at(0));
    cluster.remove(Kind::Pod, &name("team", "a"));
    submit(&mut cluster, whole("w"));
    assert!(cycle(&mut cluster, at(0)).0.is_empty());
    // It is asked for once more, shows itself, and goes.
    assert_eq!(cluster.share(at(2)).make.len(), 1);
    put(&mut cluster, "Pod", reservation(&make, None));
    cluster.made(&make.spot, &Outcome::Lost("409".to_owned()), at(2));
    assert_eq!(cycle(&mut cluster, at(3)).1.release.len(), 1);
    cluster.remove(Kind::Pod, &make.pod);
    assert_eq!(cycle(&mut cluster, at(4)).0.len(), 1);
}

#[test]
fn pods_whose_reservation_somebody_took_away_go_after_a_while() {
    let mut cluster = cluster(8);
    let (make, _) = share(&mut cluster, "a", "GPU-0", at(0));
    cluster.remove(Kind::Pod, &make.pod);
    assert!(cluster.share(at(1)).lost.is_empty());
    let steps = cluster.share(at(12));
    assert_eq!(steps.lost[0].pod, name("team", "a"));
    assert!(steps.make.is_empty(), "a new one might have another device");
    assert!(cluster.share(at(13)).lost.is_empty(), "once");
}

#[test]
fn pods_that_share_a_faulty_device_are_struck_and_others_are_not() {
    let mut cluster = cluster(8);
    let policy = |name: &str| {
        json!({"apiVersion": "scheduling.run.ai/v2alpha2", "metadata":
        {"name": name, "namespace": "team", "uid": name, "annotations": {"muster.dev/fault-policy": "evict"}},
        "spec": {"queue": "q", "minMember": 1}})
    };
    let (make, _) = share(&mut cluster, "a", "GPU-0", at(0));
    submit(&mut cluster, half("b"));
    let bind = cycle(&mut cluster, at(1)).1.binds[0].clone();
    put(&mut cluster, "Pod", bound(half("b"), &bind));
    share(&mut cluster, "c", "GPU-1", at(2));
    for group in ["a", "b", "c"] {
        put(&mut cluster, "PodGroup", policy(group));
    }
    // The agent knows only the reservation.
    let hit = [(format!("{}-uid", make.pod.1), "device 0: lost".to_owned())];
    cluster.hold("n", hit.into());
    cluster.cycle(at(3));
    assert_eq!(cluster.faults().faulted(), 2);
    let cycle = cluster.cycle(at(13));
    let mut groups: Vec<&str> = cycle.notes.iter().map(|note| &*note.group.1.1).collect();
    groups.sort_unstable();
    assert_eq!(groups, ["a", "b"]);
    for note in &cycle.notes {
        cluster.noted(&note.group, note.restart.at, &Outcome::Done, at(13));
    }
    let gone: Vec<_> = cluster.cycle(at(14)).evictions.into_iter().map(|one| one.pod).collect();
    assert_eq!(gone, [name("team", "a"), name("team", "b")]);
}

#[test]
fn one_that_has_ended_is_replaced() {
    let mut cluster = cluster(8);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    let mut failed = reservation(&make, None);
    failed["status"]["phase"] = "Failed".into();
    put(&mut cluster, "Pod", failed);
    assert_eq!(cluster.share(at(1)).release[0].pod, make.pod);
    assert!(
        cluster.names(Kind::Pod).contains(&make.pod),
        "a new listing would show that it is gone"
    );
    cluster.remove(Kind::Pod, &make.pod);
    assert_eq!(cluster.share(at(2)).make, [make]);
}

#[test]
fn reservations_that_the_kubelet_does_not_take_are_made_slower_and_given_up_with_the_reason() {
    let mut cluster = cluster(8);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    let (mut now, mut made) = (at(0), 1);
    let given_up = loop {
        let mut refused = reservation(&make, None);
        refused["metadata"]["uid"] = format!("refused-{made}").into();
        refused["status"] = json!({"phase": "Failed", "reason": "UnexpectedAdmissionError"});
        put(&mut cluster, "Pod", refused);
        let steps = cluster.share(now);
        if let Some((_, why)) = steps.given_up.first() {
            break why.clone();
        }
        assert_eq!(steps.release[0].pod, make.pod);
        cluster.remove(Kind::Pod, &make.pod);
        assert!(cluster.share(now).make.is_empty(), "not at once");
        let next = cluster.next().unwrap();
        assert!(next > now);
        now = next;
        assert_eq!(cluster.share(now).make, std::slice::from_ref(&make));
        made += 1;
    };
    assert_eq!(made, 3);
    assert!(now > at(2) && now < at(10), "{now}");
    assert!(
        given_up.contains("has ended 3 times before it had a device (UnexpectedAdmissionError)")
    );
    assert!(cluster.in_flight().is_empty());
}

#[test]
fn one_that_may_have_been_made_holds_its_device_though_a_later_try_is_refused() {
    let mut cluster = cluster(1);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    cluster.made(&make.spot, &Outcome::Unsure("no answer".to_owned()), at(0));
    assert_eq!(cluster.share(at(2)).make.len(), 1);
    cluster.made(&make.spot, &Outcome::Failed("quota".to_owned()), at(2));
    cluster.remove(Kind::Pod, &name("team", "a"));
    submit(&mut cluster, whole("w"));
    for seconds in [3, 10, 20] {
        assert!(cycle(&mut cluster, at(seconds)).0.is_empty(), "after {seconds} s");
    }
    // The watch shows it, and that it is gone.
    put(&mut cluster, "Pod", reservation(&make, None));
    cluster.made(&make.spot, &Outcome::Lost("409".to_owned()), at(21));
    cluster.share(at(21));
    cluster.remove(Kind::Pod, &make.pod);
    assert_eq!(cycle(&mut cluster, at(22)).0.len(), 1);
}

#[test]
fn a_reservation_that_is_still_being_made_holds_its_device_when_the_one_of_a_try_before_has_gone() {
    let mut cluster = cluster(1);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    // The first try is done and nobody hears of it: there is a second, which is late.
    cluster.made(&make.spot, &Outcome::Unsure("no answer".to_owned()), at(0));
    assert_eq!(cluster.share(at(5)).make.len(), 1);
    put(&mut cluster, "Pod", reservation(&make, None));
    cluster.remove(Kind::Pod, &name("team", "a"));
    cluster.share(at(6));
    cluster.remove(Kind::Pod, &make.pod);
    submit(&mut cluster, whole("w"));
    assert!(cycle(&mut cluster, at(7)).0.is_empty(), "the second try may still be done");
    cluster.made(&make.spot, &Outcome::Failed("429".to_owned()), at(8));
    cluster.share(at(8));
    assert_eq!(cycle(&mut cluster, at(9)).0.len(), 1, "now it is sure that it is not");
}

#[test]
fn a_try_that_got_no_answer_holds_its_device_though_the_one_of_a_try_before_was_seen() {
    let mut cluster = cluster(1);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    cluster.made(&make.spot, &Outcome::Unsure("no answer".to_owned()), at(0));
    assert_eq!(cluster.share(at(5)).make.len(), 1);
    put(&mut cluster, "Pod", reservation(&make, None));
    // The second try gets no answer either, and the pod of the first goes.
    cluster.made(&make.spot, &Outcome::Unsure("no answer".to_owned()), at(6));
    cluster.remove(Kind::Pod, &make.pod);
    let again = cluster.share(at(20)).make.len() + cluster.share(at(60)).make.len();
    assert_eq!(again, 1, "it is tried once more");
    cluster.made(&make.spot, &Outcome::Failed("429".to_owned()), at(61));
    cluster.remove(Kind::Pod, &name("team", "a"));
    submit(&mut cluster, whole("w"));
    assert!(cycle(&mut cluster, at(62)).0.is_empty(), "the second try may still be done");
}

#[test]
fn a_reservation_that_is_seen_before_its_answer_comes_is_made_once() {
    let mut cluster = cluster(1);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    put(&mut cluster, "Pod", reservation(&make, None));
    cluster.remove(Kind::Pod, &name("team", "a"));
    cluster.share(at(1));
    cluster.remove(Kind::Pod, &make.pod);
    cluster.made(&make.spot, &Outcome::Done, at(2));
    assert!(cluster.share(at(2)).make.is_empty() && cluster.share(at(90)).make.is_empty());
    submit(&mut cluster, whole("w"));
    assert_eq!(cycle(&mut cluster, at(91)).0.len(), 1);
}

#[test]
fn a_binding_that_is_called_back_because_its_node_is_gone_needs_no_device() {
    let mut cluster = cluster(1);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    put(&mut cluster, "Pod", reservation(&steps.make[0], Some("GPU-0")));
    let bind = cluster.share(at(1)).binds[0].clone();
    cluster.binding_result(&bind.pod, &bind.uid, Outcome::Failed("500".to_owned()), at(1));
    cluster.remove(Kind::Node, &name("", "n"));
    cluster.cycle(at(2));
    assert!(cluster.in_flight().is_empty());
    assert_eq!(cluster.share(at(2)).release[0].pod, steps.make[0].pod);
}

#[test]
fn a_pod_that_is_deleted_while_it_waits_leaves_nothing_behind() {
    let mut cluster = cluster(8);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let mut going = half("a");
    going["metadata"]["deletionTimestamp"] = at(1).to_string().into();
    put(&mut cluster, "Pod", going);
    put(&mut cluster, "Pod", reservation(&steps.make[0], Some("GPU-0")));
    let steps = cluster.share(at(2));
    assert!(steps.binds.is_empty() && cluster.in_flight().is_empty());
    assert_eq!(steps.release.len(), 1);
}

#[test]
fn a_part_that_was_promised_is_not_given_while_somebody_still_has_it() {
    let mut cluster = cluster(2);
    share(&mut cluster, "a", "GPU-0", at(0));
    submit(&mut cluster, half("b"));
    let bind = cycle(&mut cluster, at(1)).1.binds[0].clone();
    let mut leaving = bound(half("b"), &bind);
    put(&mut cluster, "Pod", leaving.clone());
    let mut other = whole("victim");
    other["spec"]["nodeName"] = "n".into();
    other["status"]["phase"] = "Running".into();
    submit(&mut cluster, other);
    // Somebody deletes b, and a gang that is more important needs its part and the victim's device.
    leaving["metadata"]["deletionTimestamp"] = at(2).to_string().into();
    put(&mut cluster, "Pod", leaving);
    put(&mut cluster, "PriorityClass", json!({"metadata": {"name": "high"}, "value": 70}));
    put(
        &mut cluster,
        "PodGroup",
        json!({"apiVersion": "scheduling.run.ai/v2alpha2",
            "metadata": {"name": "gang", "namespace": "team", "uid": "gang"},
            "spec": {"queue": "q", "minMember": 2, "priorityClassName": "high"}}),
    );
    for mut one in [half("gang-half"), whole("gang-whole")] {
        one["metadata"]["annotations"]["pod-group-name"] = "gang".into();
        put(&mut cluster, "Pod", one);
    }
    let first = cluster.cycle(at(3));
    let evicted: Vec<_> = first.evictions.iter().map(|one| &*one.pod.1).collect();
    assert_eq!(evicted, ["victim"]);
    let nomination = cluster.nominations().of("team/gang").unwrap();
    assert_eq!(nomination.places[&name("team", "gang-half")].gpu_groups, bind.gpu_groups);
    // The victim goes before b does.
    cluster.remove(Kind::Pod, &name("team", "victim"));
    let (binds, steps) = cycle(&mut cluster, at(4));
    assert!(binds.is_empty() && steps.binds.is_empty(), "{binds:?} {:?}", steps.binds);
    cluster.remove(Kind::Pod, &name("team", "b"));
    let (binds, steps) = cycle(&mut cluster, at(5));
    let bound: Vec<_> = binds.iter().chain(&steps.binds).map(|bind| &*bind.pod.1).collect();
    assert_eq!(bound, ["gang-whole", "gang-half"]);
}

#[test]
fn several_devices_are_waited_for_together() {
    let mut cluster = cluster(8);
    submit(&mut cluster, pod("a", json!({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"})));
    let (_, steps) = cycle(&mut cluster, at(0));
    assert_eq!(steps.make.len(), 2);
    put(&mut cluster, "Pod", reservation(&steps.make[0], Some("GPU-0")));
    assert!(cluster.share(at(1)).binds.is_empty());
    put(&mut cluster, "Pod", reservation(&steps.make[1], Some("GPU-1")));
    let bind = &cluster.share(at(2)).binds[0];
    let share = bind.share.as_ref().unwrap();
    assert_eq!(share.labels.len(), 2);
    assert_eq!(share.maps["a-x-shared-gpu-0"]["NVIDIA_VISIBLE_DEVICES"], "GPU-0,GPU-1");
}

#[test]
fn a_pod_that_only_calls_itself_a_reservation_holds_its_device_for_itself() {
    let mut cluster = cluster(1);
    let mut imposter = whole("imposter");
    imposter["metadata"]["labels"] = json!({"app": "kai-resource-reservation"});
    imposter["spec"]["nodeName"] = "n".into();
    put(&mut cluster, "Pod", imposter);
    submit(&mut cluster, whole("w"));
    assert!(cycle(&mut cluster, at(0)).0.is_empty());
}

/// The agent says that the device of a reservation is faulty.
fn strike(cluster: &mut Cluster, make: &Make) {
    let held = (format!("{}-uid", make.pod.1), "device 0 of nvidia.com/gpu: XID 79".to_owned());
    cluster.hold("n", [held].into());
    let device = json!({"id": 0, "resource": "nvidia.com/gpu", "fault": "XID 79"});
    let inventory = json!({"node": "n", "devices": [device]});
    cluster.put_inventory(serde_json::from_value(inventory).unwrap());
}

#[test]
fn nobody_else_gets_a_part_of_a_device_that_is_faulty() {
    let mut cluster = cluster(8);
    let (make, _) = share(&mut cluster, "a", "GPU-0", at(0));
    strike(&mut cluster, &make);
    submit(&mut cluster, half("b"));
    let (_, steps) = cycle(&mut cluster, at(1));
    assert!(steps.binds.is_empty(), "{:?}", steps.binds);
    assert_ne!(steps.make[0].spot, make.spot, "another device is opened");
    // Well again, it is shared.
    cluster.hold("n", Default::default());
    cluster.remove_inventory("n");
    submit(&mut cluster, half("c"));
    let (_, steps) = cycle(&mut cluster, at(2));
    let opened: Vec<_> = steps.make.iter().map(|make| &make.spot).collect();
    assert!(opened.is_empty(), "{opened:?}");
}

#[test]
fn where_only_a_faulty_device_has_room_a_pod_waits_and_says_why() {
    let mut cluster = cluster(1);
    let labelled = json!({"metadata": {"name": "n", "labels": {"nvidia.com/gpu.count": "1"}},
        "status": {"allocatable": {"nvidia.com/gpu": "1", "cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}});
    put(&mut cluster, "Node", labelled);
    let (make, _) = share(&mut cluster, "a", "GPU-0", at(0));
    strike(&mut cluster, &make);
    submit(&mut cluster, half("b"));
    let first = cluster.cycle(at(1));
    assert!(first.evictions.is_empty(), "who leaves it frees nothing: {:?}", first.evictions);
    let steps = cluster.share(at(1));
    assert!(steps.binds.is_empty() && steps.make.is_empty());
    assert_eq!(first.decisions.reasons["team/b"].reason, Reason::LargerThanAnyNode);
}

#[test]
fn a_pod_whose_device_turns_out_to_be_faulty_is_decided_on_anew() {
    let mut cluster = cluster(8);
    submit(&mut cluster, half("a"));
    let (_, steps) = cycle(&mut cluster, at(0));
    let make = steps.make[0].clone();
    strike(&mut cluster, &make);
    put(&mut cluster, "Pod", reservation(&make, Some("GPU-0")));
    let steps = cluster.share(at(1));
    assert!(steps.binds.is_empty());
    let why = &steps.given_up[0].1;
    assert!(why.contains("device GPU-0 of n") && why.contains("faulty"), "{why}");
    assert_eq!(cluster.share(at(2)).release[0].pod, make.pod);
    cluster.remove(Kind::Pod, &make.pod);
    let (_, steps) = cycle(&mut cluster, at(32));
    assert_eq!(steps.make.len(), 1, "after its rest it gets another");
}

#[test]
fn a_pod_that_claims_devices_waits_and_is_told_that_claims_are_not_given() {
    let mut cluster = cluster(8);
    let mut claiming = pod("a", json!({}));
    claiming["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "mine"}]);
    claiming["spec"]["containers"][0]["resources"] = json!({"claims": [{"name": "gpu"}]});
    submit(&mut cluster, claiming);
    let cycle = cluster.cycle(at(0));
    assert!(cycle.binds.is_empty());
    let why = &cycle.decisions.reasons["team/a"];
    assert_eq!(why.reason, Reason::MissingDeviceClaim);
    assert!(why.message.contains("resourceClaims") && why.message.contains("not given"), "{why:?}");
}

#[test]
fn parts_of_devices_count_in_what_groups_and_queues_ask_for_and_have() {
    let mut cluster = cluster(8);
    let node = json!({"metadata": {"name": "n", "labels": {"nvidia.com/gpu.memory": "80000"}},
        "status": {"allocatable": {"nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}});
    put(&mut cluster, "Node", node);
    let placed = |mut pod: Value| {
        pod["spec"]["nodeName"] = "n".into();
        pod["status"]["phase"] = "Running".into();
        pod
    };
    let two = json!({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"});
    submit(&mut cluster, placed(whole("whole")));
    submit(&mut cluster, placed(half("half")));
    submit(&mut cluster, placed(pod("two", two)));
    submit(&mut cluster, placed(pod("memory", json!({"gpu-memory": "20000"}))));
    submit(&mut cluster, half("waits"));
    let decisions = cluster.cycle(at(0)).decisions;
    let groups = muster_scheduler_state::status::groups(&cluster, &decisions);
    let amounts = |all: &muster_scheduler_state::status::Amounts| -> Vec<String> {
        all.iter().map(|(resource, amount)| format!("{resource} {amount}")).collect()
    };
    let of = |group: &str| {
        let status = &groups[&name("team", group)];
        (amounts(&status.requested), amounts(&status.allocated))
    };
    let gpus = |amount: &str| vec![format!("nvidia.com/gpu {amount}")];
    assert_eq!(of("half"), (gpus("500m"), gpus("500m")));
    assert_eq!(of("two"), (gpus("500m"), gpus("500m")));
    assert_eq!(of("memory"), (vec!["run.ai/gpu.memory 20k".to_owned()], gpus("250m")));
    assert_eq!(of("waits"), (gpus("500m"), Vec::new()));
    let queues = muster_scheduler_state::status::queues(&cluster, &decisions, &groups);
    assert_eq!(amounts(&queues["q"].allocated), gpus("2250m"));
}
