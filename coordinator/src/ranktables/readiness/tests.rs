use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use muster_hub::registry::{Refusal, TableReport};
use muster_ranktable::{ConfigMap, Order, TableTemplate};
use proptest::prelude::*;
use serde_json::json;

use super::super::delivery::DeliveryStatus;
use super::super::group::{RankGroup, Template};
use super::super::member::{Devices, GroupKey, Home, Member};
use super::super::phase::{FailedAttempt, Phase};
use super::super::record::{Content, Record, State};
use super::*;

const START: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).unwrap()
}

fn key() -> GroupKey {
    GroupKey { namespace: "n".into(), name: "g".into() }
}

fn template(text: &str) -> Template {
    let source = json!({"metadata": {"name": "t"}, "data": {"ranktable-template": text, "filename": "t.txt"}});
    let source: ConfigMap = serde_json::from_value(source).unwrap();
    Ok(Arc::new(TableTemplate::read(&source, None).unwrap()))
}

fn plain() -> Template {
    template("{{.ServerCount}}")
}

/// A pod of the group that the agent delivers to.
fn pod(name: &str, size: usize) -> Member {
    changed(name, size, json!({}))
}

fn changed(name: &str, size: usize, with: serde_json::Value) -> Member {
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"), "creationTimestamp": at(0).to_string(),
            "labels": {"muster.dev/rank-group": "g"},
            "annotations": {
                "muster.dev/rank-group-size": size.to_string(),
                "muster.dev/ranktable-template": "t",
                "muster.dev/ranktable-file": "t.txt",
            },
        },
        "spec": {"nodeName": format!("node-{name}"), "containers": [],
            "volumes": [{"name": "ranktable", "emptyDir": {}}]},
        "status": {"phase": "Pending"},
    });
    merge(&mut object, with);
    let pod: Pod = serde_json::from_value(object).unwrap();
    Member::of(&key(), &pod)
}

fn merge(into: &mut serde_json::Value, with: serde_json::Value) {
    match (into, with) {
        (serde_json::Value::Object(into), serde_json::Value::Object(with)) => {
            for (key, value) in with {
                merge(into.entry(key).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, with) => *into = with,
    }
}

fn holding(mut member: Member, devices: &str) -> Member {
    member.devices = Some(Devices::Reported(devices.into()));
    member.table.connected = true;
    member
}

fn group(members: impl IntoIterator<Item = Member>) -> RankGroup {
    let mut group = RankGroup::new(key());
    group.members = members.into_iter().map(|member| (member.pod.uid.clone(), member)).collect();
    group.recorded.record = Some(Arc::new(Record::empty("t.txt", Vec::new(), 1)));
    group
}

fn next_of(group: &RankGroup, now: i64) -> NextStep {
    group.next_step(&plain(), &Timeouts::default(), at(now))
}

/// As if what the step asks for had been recorded.
fn publish(group: &mut RankGroup, template: &Template, now: i64) -> u64 {
    let next = group.next_step(template, &Timeouts::default(), at(now));
    let Action::Compose { generation, changed, members, source } = next.action else {
        panic!("{next:?}")
    };
    let record = Record {
        state: State::Published,
        generation,
        changed,
        members: Some(members),
        input: Some(source.input),
        template: Some(source.template),
        digest: Some(Digest::of(b"table")),
        content: Content::Text("table".into()),
        ..Record::default()
    };
    group.recorded.record = Some(Arc::new(record));
    generation
}

#[test]
fn a_group_without_a_record_gets_an_empty_one_first() {
    let mut fresh = group([pod("a", 2)]);
    fresh.recorded.record = None;
    assert_eq!(next_of(&fresh, 1).action, Action::Create);
}

#[test]
fn a_table_is_made_when_the_last_pod_and_the_last_device_are_known() {
    let mut two = group([holding(pod("a", 2), "A")]);
    let next = next_of(&two, 1);
    assert_eq!((next.action, next.readiness.reason), (Action::Wait, "WaitingForPods"));
    assert_eq!(next.readiness.message, "1 of 2 pods are there");
    two.members.insert("uid-b".into(), pod("b", 2));
    let next = next_of(&two, 1);
    assert_eq!((&next.action, next.readiness.reason), (&Action::Wait, "WaitingForDevices"));
    assert!(next.readiness.message.contains("the agent of node node-b has no stream"), "{next:?}");
    two.members.insert("uid-b".into(), holding(pod("b", 2), "B"));
    assert_eq!(publish(&mut two, &plain(), 1), 1);
    let next = next_of(&two, 100);
    assert_eq!((next.action, next.readiness.reason), (Action::HandOut, "Published"));
}

#[test]
fn pods_that_are_going_or_have_failed_do_not_count() {
    let going = holding(
        changed("c", 2, json!({"metadata": {"deletionTimestamp": at(0).to_string()}})),
        "C",
    );
    let failed = holding(changed("d", 2, json!({"status": {"phase": "Failed"}})), "D");
    let mut four = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B"), going, failed]);
    assert_eq!(publish(&mut four, &plain(), 1), 1);
}

#[test]
fn too_many_pods_are_not_a_group() {
    let three =
        group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B"), holding(pod("c", 2), "C")]);
    assert_eq!(next_of(&three, 1).readiness.message, "3 of 2 pods are there");
}

#[test]
fn what_changes_makes_the_next_generation_and_nothing_else_does() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    assert_eq!(publish(&mut two, &plain(), 1), 1);
    let before = two.recorded.record.clone().unwrap();
    // An address of a pod comes later, and this template does not ask for it.
    let addressed = changed("a", 2, json!({"status": {"podIP": "1.2.3.4", "hostIP": "10.0.0.1"}}));
    two.members.insert("uid-a".into(), holding(addressed, "A"));
    assert_eq!(next_of(&two, 2).action, Action::HandOut);
    // A device fails.
    two.members.insert("uid-a".into(), holding(pod("a", 2), "A without one"));
    assert_eq!(publish(&mut two, &plain(), 5), 2);
    assert_ne!(two.recorded.record.as_ref().unwrap().changed, before.changed);
    // A pod is replaced.
    two.members.remove("uid-b");
    assert_eq!(next_of(&two, 6).readiness.reason, "WaitingForPods");
    two.members.insert("uid-c".into(), holding(pod("c", 2), "B"));
    assert_eq!(publish(&mut two, &plain(), 7), 3);
    // Scaled: the youngest pod says so.
    let youngest = changed("d", 3, json!({"metadata": {"creationTimestamp": at(8).to_string()}}));
    two.members.insert("uid-d".into(), holding(youngest, "D"));
    assert_eq!(publish(&mut two, &plain(), 9), 4);
}

#[test]
fn a_template_is_taken_anew_until_a_pod_has_started() {
    let mut one = group([holding(pod("a", 1), "A")]);
    publish(&mut one, &plain(), 1);
    let other = template("{{.TotalDevices}}");
    let next = one.next_step(&other, &Timeouts::default(), at(2));
    assert!(
        matches!(&next.action, Action::Compose { generation: 2, changed, .. } if *changed == at(1).to_string()),
        "{next:?}"
    );
    one.members.insert(
        "uid-a".into(),
        holding(changed("a", 1, json!({"status": {"phase": "Running"}})), "A"),
    );
    assert_eq!(one.next_step(&other, &Timeouts::default(), at(2)).action, Action::HandOut);
}

#[test]
fn a_running_group_keeps_its_table_when_its_template_breaks() {
    let running =
        |devices: &str| holding(changed("a", 1, json!({"status": {"phase": "Running"}})), devices);
    let mut one = group([running("A")]);
    publish(&mut one, &plain(), 1);
    let broken =
        |group: &RankGroup| group.next_step(&Err("gone".into()), &Timeouts::default(), at(2));
    assert_eq!((broken(&one).action, broken(&one).readiness.ready), (Action::HandOut, true));
    one.members.insert("uid-a".into(), running("A without one"));
    assert_eq!(broken(&one).readiness.reason, "TemplateInvalid");
}

#[test]
fn the_ranks_of_a_model_serving_follow_its_pods_unless_somebody_says_otherwise() {
    let template = plain().unwrap();
    let order = |pod: Member| group([holding(pod, "A")]).order(&template);
    assert_eq!(order(changed("a", 1, json!({}))), Order::Lexical);
    let role = json!({"modelserving.volcano.sh/role": "worker"});
    let serving = |annotations: serde_json::Value| {
        changed("a", 1, json!({"metadata": {"labels": role, "annotations": annotations}}))
    };
    assert_eq!(order(serving(json!({}))), Order::Pod);
    let said = json!({"kthena.io/ranktable-order": "lexicographic"});
    assert_eq!(order(serving(said)), Order::Lexical);
    for (key, word) in [("order", "upwards"), ("timeout", "soon")] {
        let key = format!("kthena.io/ranktable-{key}");
        let with = json!({"metadata": {"annotations": {key: word}}});
        let mut one = group([holding(changed("a", 1, with), "A")]);
        one.recorded.record = Some(Arc::new(Record::default()));
        let readiness = next_of(&one, 1).readiness;
        assert_eq!(readiness.reason, "InvalidMarks", "{}", readiness.message);
        assert!(readiness.message.contains(word), "{}", readiness.message);
    }
}

#[test]
fn two_model_servings_never_share_a_table() {
    let owned = |name: &str, uid: &str| {
        let owner = json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
            "name": uid, "uid": uid, "controller": true});
        holding(changed(name, 2, json!({"metadata": {"ownerReferences": [owner]}})), name)
    };
    let readiness = |second: &str| {
        let mut one = group([owned("a", "x"), owned("b", second)]);
        one.recorded.record = Some(Arc::new(Record::default()));
        next_of(&one, 1).readiness
    };
    assert_ne!(readiness("x").reason, "InvalidMarks");
    let told = readiness("y");
    assert_eq!(
        (told.reason, told.message.contains("x and y")),
        ("InvalidMarks", true),
        "{}",
        told.message
    );
}

#[test]
fn a_config_map_of_somebody_else_is_left_alone() {
    let mut one = group([holding(pod("a", 1), "A")]);
    one.recorded.record = Some(Arc::new(Record { foreign: true, ..Record::default() }));
    let next = next_of(&one, 1);
    assert_eq!((next.action, next.readiness.reason), (Action::Wait, "NameTaken"));
}

#[test]
fn a_leader_that_has_just_begun_leaves_what_is_recorded() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    publish(&mut two, &plain(), 1);
    two.members.insert("uid-b".into(), pod("b", 2));
    let next = next_of(&two, 5000);
    assert_eq!((next.action, next.readiness.ready), (Action::HandOut, true));
    assert!(
        next.readiness.message.contains("1 of 2 agents have not confirmed"),
        "{}",
        next.readiness.message
    );
}

#[test]
fn a_pod_all_of_whose_devices_fail_leaves_the_group_without_a_table() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    publish(&mut two, &plain(), 1);
    let mut broken = pod("b", 2);
    (broken.reported, broken.table.connected) = (true, true);
    two.members.insert("uid-b".into(), broken);
    let next = next_of(&two, 5);
    assert_eq!((next.action, next.readiness.ready), (Action::Wait, false));
    let message = next.readiness.message;
    assert!(message.contains("b (node node-b reports no working devices of it)"), "{message}");
}

#[test]
fn a_record_that_was_lost_does_not_take_generations_back() {
    let mut one = group([holding(pod("a", 1), "A")]);
    one.members.get_mut("uid-a").unwrap().table.delivered = Some((7, Digest::of(b"old")));
    assert_eq!(publish(&mut one, &plain(), 1), 8);
    // An agent comes back with something newer than the record: the next one is newer still.
    one.members.get_mut("uid-a").unwrap().table.delivered = Some((20, Digest::of(b"lost")));
    assert_eq!(publish(&mut one, &plain(), 2), 21);
}

#[test]
fn a_new_record_begins_where_the_lost_one_ended_as_far_as_anybody_knows() {
    let volume = json!({"metadata": {"annotations": {"muster.dev/ranktable-generation": "9"}},
        "spec": {"volumes": [{"name": "ranktable", "emptyDir": null, "configMap": {"name": "g-ranktable"}}]}});
    let mut told = group([holding(changed("a", 1, volume), "A")]);
    assert_eq!(told.highest_generation(), 9, "the pod was told");
    assert_eq!(publish(&mut told, &plain(), 1), 10);

    let mut seen = group([holding(pod("a", 1), "A")]);
    seen.recorded.highest = 7;
    assert_eq!(seen.highest_generation(), 7, "this coordinator has seen it");
    assert_eq!(publish(&mut seen, &plain(), 1), 8);
    // Somebody makes it smaller by hand: it is made anew, higher.
    seen.recorded.highest = 8;
    let record = Record { generation: 2, ..(**seen.recorded.record.as_ref().unwrap()).clone() };
    seen.recorded.record = Some(Arc::new(record));
    assert_eq!(publish(&mut seen, &plain(), 2), 9);
}

#[test]
fn a_pod_that_was_told_stays_told_when_an_older_version_of_it_is_seen() {
    let volume = |told: &str| {
        changed(
            "a",
            1,
            json!({"metadata": {"annotations": {"muster.dev/ranktable-generation": told}},
            "spec": {"volumes": [{"name": "ranktable", "emptyDir": null, "configMap": {"name": "g-ranktable"}}]}}),
        )
    };
    for (before, after, known) in [("4", "3", 4), ("4", "", 4), ("4", "5", 5)] {
        let mut member = volume(after);
        member.remember(&volume(before));
        assert_eq!(member.home, Home::ConfigMap { announced: Some(known) });
    }
}

#[test]
fn what_failed_is_not_tried_again_until_something_changes() {
    let mut one = group([holding(pod("a", 1), "A")]);
    let Action::Compose { source, .. } = next_of(&one, 1).action else { panic!() };
    let attempt = FailedAttempt { source, message: "no".into() };
    one.phase = Phase::Failed { attempt, since: at(1) };
    let next = next_of(&one, 2);
    assert_eq!((next.readiness.reason, next.has_failed()), ("GenerationFailed", true));
    one.members.insert("uid-a".into(), holding(pod("a", 1), "other"));
    assert!(matches!(next_of(&one, 2).action, Action::Compose { .. }));
}

#[test]
fn a_bad_template_or_mark_is_said_and_nothing_is_made() {
    let one = group([holding(pod("a", 1), "A")]);
    let next = one.next_step(&Err("ConfigMap t has no key x".into()), &Timeouts::default(), at(1));
    assert_eq!((next.action, next.readiness.reason), (Action::Wait, "TemplateInvalid"));
    for size in ["0", "-1", "x", "1000000"] {
        let odd = changed(
            "a",
            1,
            json!({"metadata": {"annotations": {"muster.dev/rank-group-size": size}}}),
        );
        let next = next_of(&group([holding(odd, "A")]), 1);
        assert_eq!(next.readiness.reason, "InvalidMarks");
        assert!(next.readiness.message.contains("must be a number"), "{}", next.readiness.message);
    }
}

#[test]
fn after_its_time_a_group_without_devices_has_failed_and_is_tried_on() {
    let mut one = group([pod("a", 1)]);
    one.members.get_mut("uid-a").unwrap().table.connected = true;
    let next = next_of(&one, 5);
    assert_eq!((next.missing.len(), next.again), (0, Some(at(10))));
    let next = next_of(&one, 10);
    assert_eq!((next.missing, next.again), (vec!["a".to_owned()], Some(at(600))));
    let next = next_of(&one, 600);
    assert_eq!((next.readiness.reason, next.has_failed()), ("Timeout", true));
    one.members.insert("uid-a".into(), holding(pod("a", 1), "A"));
    assert!(matches!(next_of(&one, 601).action, Action::Compose { .. }));
    let quick = json!({"metadata": {"annotations": {"kthena.io/ranktable-timeout": "30s"}}});
    assert_eq!(next_of(&group([changed("a", 1, quick)]), 31).readiness.reason, "Timeout");
}

#[test]
fn pods_that_read_a_config_map_never_see_the_table_of_other_members() {
    let volume =
        json!({"spec": {"volumes": [{"name": "ranktable", "configMap": {"name": "g-ranktable"}}]}});
    let reader = |name: &str| holding(changed(name, 2, volume.clone()), name);
    let mut two = group([reader("a"), reader("b")]);
    assert_eq!(two.members["uid-a"].home, Home::ConfigMap { announced: None });
    publish(&mut two, &plain(), 1);
    two.members.remove("uid-b");
    assert_eq!(next_of(&two, 2).action, Action::Blank);
    let blank = Record {
        state: State::Changing,
        content: Content::None,
        ..(**two.recorded.record.as_ref().unwrap()).clone()
    };
    two.recorded.record = Some(Arc::new(blank));
    assert_eq!(next_of(&two, 3).readiness.reason, "WaitingForPods");
    two.members.insert("uid-c".into(), reader("c"));
    assert_eq!(publish(&mut two, &plain(), 4), 2);
}

#[test]
fn pods_that_come_after_others_have_finished_never_get_the_old_table() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    publish(&mut two, &plain(), 1);
    let finished = |name: &str| changed(name, 2, json!({"status": {"phase": "Succeeded"}}));
    // A pod is replaced after another one has finished.
    two.members.insert("uid-a".into(), finished("a"));
    two.members.remove("uid-b");
    two.members.insert("uid-c".into(), holding(pod("c", 2), "C"));
    let next = next_of(&two, 2);
    assert_eq!((next.action, next.readiness.reason), (Action::Wait, "WaitingForPods"));
    // The same group runs again, while the pods of its first run are still to be seen.
    two.members.insert("uid-b".into(), finished("b"));
    two.members.insert("uid-d".into(), holding(pod("d", 2), "D"));
    assert_eq!(publish(&mut two, &plain(), 3), 2);
}

#[test]
fn a_pod_with_bad_marks_does_not_keep_the_old_table_readable() {
    let volume =
        json!({"spec": {"volumes": [{"name": "ranktable", "configMap": {"name": "g-ranktable"}}]}});
    let mut one = group([holding(changed("a", 1, volume.clone()), "A")]);
    publish(&mut one, &plain(), 1);
    let mut odd = volume;
    merge(&mut odd, json!({"metadata": {"annotations": {"muster.dev/rank-group-size": "many"}}}));
    one.members.clear();
    one.members.insert("uid-b".into(), changed("b", 1, odd));
    assert_eq!(next_of(&one, 2).action, Action::Blank);
}

#[test]
fn the_table_of_a_job_that_ends_stays() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    publish(&mut two, &plain(), 1);
    two.members.insert("uid-b".into(), changed("b", 2, json!({"status": {"phase": "Succeeded"}})));
    let next = next_of(&two, 5000);
    assert_eq!(
        (next.action, next.readiness.reason, next.readiness.ready),
        (Action::HandOut, "Finished", true)
    );
}

#[test]
fn who_lacks_the_table_is_named_with_the_reason() {
    let mut three = group(["a", "b", "c"].map(|name| holding(pod(name, 3), name)));
    let digest = Digest::of(b"table");
    three.members.get_mut("uid-a").unwrap().table.delivered = Some((2, digest));
    three.members.get_mut("uid-b").unwrap().table = TableReport::default();
    three.members.get_mut("uid-c").unwrap().table.refused =
        Some(Refusal { generation: 2, reason: "disk-full".into(), message: "no space".into() });
    let status: DeliveryStatus = three.delivery_status(2, digest);
    assert_eq!((status.there, status.all), (1, 3));
    assert_eq!(
        status.message(true),
        "1 of 3 pods have generation 2; late: node node-b: pod b: the node's agent has no stream; \
         node node-c: pod c: no space (disk-full)"
    );
}

proptest! {
    /// Whatever happens to the members, in whatever order: generations grow, and the same input is recorded once.
    #[test]
    fn generations_only_grow(moves in proptest::collection::vec((0..4usize, 0..4usize, any::<bool>()), 1..40)) {
        let mut group = group([]);
        let mut last = 0;
        for (now, (which, devices, there)) in (1..).zip(moves) {
            let name = ["a", "b", "c", "d"][which];
            match there {
                true => {
                    let member = holding(pod(name, 2), &format!("{name}{devices}"));
                    group.members.insert(member.pod.uid.clone(), member);
                }
                false => drop(group.members.remove(&format!("uid-{name}"))),
            }
            if let Action::Compose { generation, .. } = next_of(&group, now).action {
                prop_assert!(generation > last);
                last = publish(&mut group, &plain(), now);
                let after = next_of(&group, now);
                prop_assert_eq!(after.action, Action::HandOut);
            }
        }
    }
}
