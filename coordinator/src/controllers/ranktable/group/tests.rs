use k8s_openapi::api::core::v1::Pod;
use muster_ranktable::ConfigMap;
use proptest::prelude::*;
use serde_json::json;

use super::super::delivery::Standing;
use super::super::member::MemberSeat;
use super::super::record::Content;
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
    member.devices = Some(devices.into());
    member.seat.linked = true;
    member
}

fn group(members: impl IntoIterator<Item = Member>) -> Group {
    let mut group = Group::new(key());
    group.members = members.into_iter().map(|member| (member.pod.uid.clone(), member)).collect();
    group.record = Some(Arc::new(Record::empty("t.txt", Vec::new(), 1)));
    group
}

fn look(group: &Group, now: i64) -> Outlook {
    group.outlook(&plain(), &Patience::default(), at(now))
}

/// As if what the step asks for had been recorded.
fn publish(group: &mut Group, template: &Template, now: i64) -> u64 {
    let outlook = group.outlook(template, &Patience::default(), at(now));
    let Step::Compose { generation, changed, members, input } = outlook.step else {
        panic!("{outlook:?}")
    };
    let record = Record {
        state: State::Published,
        generation,
        changed,
        members: Some(members),
        input: Some(input),
        template: Some(template.as_ref().unwrap().digest()),
        digest: Some(Digest::of(b"table")),
        content: Content::Text("table".into()),
        ..Record::default()
    };
    group.record = Some(Arc::new(record));
    generation
}

#[test]
fn a_group_without_a_record_gets_an_empty_one_first() {
    let mut fresh = group([pod("a", 2)]);
    fresh.record = None;
    assert_eq!(look(&fresh, 1).step, Step::Create);
}

#[test]
fn a_table_is_made_when_the_last_pod_and_the_last_device_are_known() {
    let mut two = group([holding(pod("a", 2), "A")]);
    let outlook = look(&two, 1);
    assert_eq!((outlook.step, outlook.verdict.reason), (Step::Wait, "WaitingForPods"));
    assert_eq!(outlook.verdict.message, "1 of 2 pods are there");
    two.members.insert("uid-b".into(), pod("b", 2));
    let outlook = look(&two, 1);
    assert_eq!((&outlook.step, outlook.verdict.reason), (&Step::Wait, "WaitingForDevices"));
    assert!(
        outlook.verdict.message.contains("the agent of node node-b has no stream"),
        "{outlook:?}"
    );
    two.members.insert("uid-b".into(), holding(pod("b", 2), "B"));
    assert_eq!(publish(&mut two, &plain(), 1), 1);
    let outlook = look(&two, 100);
    assert_eq!((outlook.step, outlook.verdict.reason), (Step::HandOut, "Published"));
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
    assert_eq!(look(&three, 1).verdict.message, "3 of 2 pods are there");
}

#[test]
fn what_changes_makes_the_next_generation_and_nothing_else_does() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    assert_eq!(publish(&mut two, &plain(), 1), 1);
    let before = two.record.clone().unwrap();
    // An address of a pod comes later, and this template does not ask for it.
    let addressed = changed("a", 2, json!({"status": {"podIP": "1.2.3.4", "hostIP": "10.0.0.1"}}));
    two.members.insert("uid-a".into(), holding(addressed, "A"));
    assert_eq!(look(&two, 2).step, Step::HandOut);
    // A device fails.
    two.members.insert("uid-a".into(), holding(pod("a", 2), "A without one"));
    assert_eq!(publish(&mut two, &plain(), 5), 2);
    assert_ne!(two.record.as_ref().unwrap().changed, before.changed);
    // A pod is replaced.
    two.members.remove("uid-b");
    assert_eq!(look(&two, 6).verdict.reason, "WaitingForPods");
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
    let outlook = one.outlook(&other, &Patience::default(), at(2));
    assert!(
        matches!(&outlook.step, Step::Compose { generation: 2, changed, .. } if *changed == at(1).to_string()),
        "{outlook:?}"
    );
    one.members.insert(
        "uid-a".into(),
        holding(changed("a", 1, json!({"status": {"phase": "Running"}})), "A"),
    );
    assert_eq!(one.outlook(&other, &Patience::default(), at(2)).step, Step::HandOut);
}

#[test]
fn a_running_group_keeps_its_table_when_its_template_breaks() {
    let running =
        |devices: &str| holding(changed("a", 1, json!({"status": {"phase": "Running"}})), devices);
    let mut one = group([running("A")]);
    publish(&mut one, &plain(), 1);
    let broken = |group: &Group| group.outlook(&Err("gone".into()), &Patience::default(), at(2));
    assert_eq!((broken(&one).step, broken(&one).verdict.ready), (Step::HandOut, true));
    one.members.insert("uid-a".into(), running("A without one"));
    assert_eq!(broken(&one).verdict.reason, "TemplateInvalid");
}

#[test]
fn the_ranks_of_a_model_serving_follow_its_pods_unless_somebody_says_otherwise() {
    let template = plain().unwrap();
    let order = |pod: Member| group([holding(pod, "A")]).order(&template);
    assert_eq!(order(changed("a", 1, json!({}))), Order::Seed);
    let role = json!({"modelserving.volcano.sh/role": "worker"});
    let serving = |annotations: serde_json::Value| {
        changed("a", 1, json!({"metadata": {"labels": role, "annotations": annotations}}))
    };
    assert_eq!(order(serving(json!({}))), Order::Pod);
    let said = json!({"kthena.io/ranktable-order": "lexicographic"});
    assert_eq!(order(serving(said)), Order::Seed);
    for (key, word) in [("order", "upwards"), ("timeout", "soon")] {
        let key = format!("kthena.io/ranktable-{key}");
        let with = json!({"metadata": {"annotations": {key: word}}});
        let mut one = group([holding(changed("a", 1, with), "A")]);
        one.record = Some(Arc::new(Record::default()));
        let verdict = look(&one, 1).verdict;
        assert_eq!(verdict.reason, "InvalidMarks", "{}", verdict.message);
        assert!(verdict.message.contains(word), "{}", verdict.message);
    }
}

#[test]
fn two_model_servings_never_share_a_table() {
    let owned = |name: &str, uid: &str| {
        let owner = json!({"apiVersion": "workload.kthena.io/v1alpha1", "kind": "ModelServing",
            "name": uid, "uid": uid, "controller": true});
        holding(changed(name, 2, json!({"metadata": {"ownerReferences": [owner]}})), name)
    };
    let verdict = |second: &str| {
        let mut one = group([owned("a", "x"), owned("b", second)]);
        one.record = Some(Arc::new(Record::default()));
        look(&one, 1).verdict
    };
    assert_ne!(verdict("x").reason, "InvalidMarks");
    let told = verdict("y");
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
    one.record = Some(Arc::new(Record { foreign: true, ..Record::default() }));
    let outlook = look(&one, 1);
    assert_eq!((outlook.step, outlook.verdict.reason), (Step::Wait, "NameTaken"));
}

#[test]
fn a_leader_that_has_just_begun_leaves_what_is_recorded() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    publish(&mut two, &plain(), 1);
    two.members.insert("uid-b".into(), pod("b", 2));
    let outlook = look(&two, 5000);
    assert_eq!((outlook.step, outlook.verdict.ready), (Step::HandOut, true));
    assert!(
        outlook.verdict.message.contains("1 of 2 agents have not confirmed"),
        "{}",
        outlook.verdict.message
    );
}

#[test]
fn a_pod_all_of_whose_devices_fail_leaves_the_group_without_a_table() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    publish(&mut two, &plain(), 1);
    let mut broken = pod("b", 2);
    (broken.reported, broken.seat.linked) = (true, true);
    two.members.insert("uid-b".into(), broken);
    let outlook = look(&two, 5);
    assert_eq!((outlook.step, outlook.verdict.ready), (Step::Wait, false));
    let message = outlook.verdict.message;
    assert!(message.contains("b (node node-b reports no working devices of it)"), "{message}");
}

#[test]
fn a_record_that_was_lost_does_not_take_generations_back() {
    let mut one = group([holding(pod("a", 1), "A")]);
    one.members.get_mut("uid-a").unwrap().seat.delivered = Some((7, Digest::of(b"old")));
    assert_eq!(publish(&mut one, &plain(), 1), 8);
    // An agent comes back with something newer than the record: the next one is newer still.
    one.members.get_mut("uid-a").unwrap().seat.delivered = Some((20, Digest::of(b"lost")));
    assert_eq!(publish(&mut one, &plain(), 2), 21);
}

#[test]
fn a_new_record_begins_where_the_lost_one_ended_as_far_as_anybody_knows() {
    let volume = json!({"metadata": {"annotations": {"muster.dev/ranktable-generation": "9"}},
        "spec": {"volumes": [{"name": "ranktable", "emptyDir": null, "configMap": {"name": "g-ranktable"}}]}});
    let mut told = group([holding(changed("a", 1, volume), "A")]);
    assert_eq!(told.beginning(), 9, "the pod was told");
    assert_eq!(publish(&mut told, &plain(), 1), 10);

    let mut seen = group([holding(pod("a", 1), "A")]);
    seen.floor = 7;
    assert_eq!(seen.beginning(), 7, "this coordinator has seen it");
    assert_eq!(publish(&mut seen, &plain(), 1), 8);
    // Somebody makes it smaller by hand: it is made anew, higher.
    seen.floor = 8;
    let record = Record { generation: 2, ..(**seen.record.as_ref().unwrap()).clone() };
    seen.record = Some(Arc::new(record));
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
        assert_eq!(member.home, Home::ConfigMap { told: Some(known) });
    }
}

#[test]
fn what_failed_is_not_tried_again_until_something_changes() {
    let mut one = group([holding(pod("a", 1), "A")]);
    let Step::Compose { input, .. } = look(&one, 1).step else { panic!() };
    let failed = |input| Failed {
        input,
        template: plain().unwrap().digest(),
        reason: "r",
        message: "no".into(),
    };
    one.failed = Some(failed(input));
    let outlook = look(&one, 2);
    assert_eq!((outlook.verdict.reason, outlook.has_failed()), ("GenerationFailed", true));
    one.members.insert("uid-a".into(), holding(pod("a", 1), "other"));
    assert!(matches!(look(&one, 2).step, Step::Compose { .. }));
}

#[test]
fn a_bad_template_or_mark_is_said_and_nothing_is_made() {
    let one = group([holding(pod("a", 1), "A")]);
    let outlook = one.outlook(&Err("ConfigMap t has no key x".into()), &Patience::default(), at(1));
    assert_eq!((outlook.step, outlook.verdict.reason), (Step::Wait, "TemplateInvalid"));
    for size in ["0", "-1", "x", "1000000"] {
        let odd = changed(
            "a",
            1,
            json!({"metadata": {"annotations": {"muster.dev/rank-group-size": size}}}),
        );
        let outlook = look(&group([holding(odd, "A")]), 1);
        assert_eq!(outlook.verdict.reason, "InvalidMarks");
        assert!(
            outlook.verdict.message.contains("must be a number"),
            "{}",
            outlook.verdict.message
        );
    }
}

#[test]
fn after_its_time_a_group_without_devices_has_failed_and_is_tried_on() {
    let mut one = group([pod("a", 1)]);
    one.members.get_mut("uid-a").unwrap().seat.linked = true;
    let outlook = look(&one, 5);
    assert_eq!((outlook.missing.len(), outlook.again), (0, Some(at(10))));
    let outlook = look(&one, 10);
    assert_eq!((outlook.missing, outlook.again), (vec!["a".to_owned()], Some(at(600))));
    let outlook = look(&one, 600);
    assert_eq!((outlook.verdict.reason, outlook.has_failed()), ("Timeout", true));
    one.members.insert("uid-a".into(), holding(pod("a", 1), "A"));
    assert!(matches!(look(&one, 601).step, Step::Compose { .. }));
    let quick = json!({"metadata": {"annotations": {"kthena.io/ranktable-timeout": "30s"}}});
    assert_eq!(look(&group([changed("a", 1, quick)]), 31).verdict.reason, "Timeout");
}

#[test]
fn pods_that_read_a_config_map_never_see_the_table_of_other_members() {
    let volume =
        json!({"spec": {"volumes": [{"name": "ranktable", "configMap": {"name": "g-ranktable"}}]}});
    let reader = |name: &str| holding(changed(name, 2, volume.clone()), name);
    let mut two = group([reader("a"), reader("b")]);
    assert_eq!(two.members["uid-a"].home, Home::ConfigMap { told: None });
    publish(&mut two, &plain(), 1);
    two.members.remove("uid-b");
    assert_eq!(look(&two, 2).step, Step::Blank);
    let blank = Record {
        state: State::Changing,
        content: Content::None,
        ..(**two.record.as_ref().unwrap()).clone()
    };
    two.record = Some(Arc::new(blank));
    assert_eq!(look(&two, 3).verdict.reason, "WaitingForPods");
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
    let outlook = look(&two, 2);
    assert_eq!((outlook.step, outlook.verdict.reason), (Step::Wait, "WaitingForPods"));
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
    assert_eq!(look(&one, 2).step, Step::Blank);
}

#[test]
fn the_table_of_a_job_that_ends_stays() {
    let mut two = group([holding(pod("a", 2), "A"), holding(pod("b", 2), "B")]);
    publish(&mut two, &plain(), 1);
    two.members.insert("uid-b".into(), changed("b", 2, json!({"status": {"phase": "Succeeded"}})));
    let outlook = look(&two, 5000);
    assert_eq!(
        (outlook.step, outlook.verdict.reason, outlook.verdict.ready),
        (Step::HandOut, "Finished", true)
    );
}

#[test]
fn who_lacks_the_table_is_named_with_the_reason() {
    let mut three = group(["a", "b", "c"].map(|name| holding(pod(name, 3), name)));
    let digest = Digest::of(b"table");
    three.members.get_mut("uid-a").unwrap().seat.delivered = Some((2, digest));
    three.members.get_mut("uid-b").unwrap().seat = MemberSeat::default();
    three.members.get_mut("uid-c").unwrap().seat.refused = Some(muster_hub::registry::Refusal {
        generation: 2,
        reason: "disk-full".into(),
        message: "no space".into(),
    });
    let standing: Standing = three.delivery(2, digest);
    assert_eq!((standing.there, standing.all), (1, 3));
    assert_eq!(
        standing.message(true),
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
            if let Step::Compose { generation, .. } = look(&group, now).step {
                prop_assert!(generation > last);
                last = publish(&mut group, &plain(), now);
                let after = look(&group, now);
                prop_assert_eq!(after.step, Step::HandOut);
            }
        }
    }
}
