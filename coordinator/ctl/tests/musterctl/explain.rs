//! Why something does not run.

use serde_json::{Value as Json, json};

use crate::cluster_file::{ClusterFile, group, pod};

/// The lines of one heading, up to the next.
fn under<'a>(out: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = out.lines().skip_while(|line| !line.starts_with(heading));
    let rest = lines.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with(' '));
    rest.map(|(_, line)| line.trim_start_matches(heading).trim()).collect()
}

#[test]
fn a_group_without_room_has_its_reason_counts_of_nodes_its_place_and_what_helps() {
    let file = ClusterFile::new().waiting("big", "team-a", 3, 8).waiting("next", "team-a", 3, 8);
    let (code, out, error) = file.text(&["explain", "podgroup/next"]);
    assert_eq!((code, error.as_str()), (1, ""));
    assert_eq!(out.lines().next(), Some("PodGroup ml/next does not run: NoRoom"));
    let nodes = under(&out, "NODES");
    assert!(nodes.contains(&"1 × taint not tolerated"), "{out}");
    assert!(nodes.contains(&"1 × node is unschedulable"), "{out}");
    assert_eq!(under(&out, "TRIED"), ["1 of 3 pods placed"]);
    let queue = under(&out, "QUEUE");
    assert_eq!(queue[0], "team-a: number 2 of 2 groups that wait");
    // Quota, limit, fair share, what it has, what it asks for.
    let own: Vec<&str> = queue[2].split_whitespace().collect();
    assert_eq!(own[..5], ["team-a", "devices", "8", "-", "16"], "{out}");
    assert_eq!(own[5..], ["0", "48"], "{out}");
    let helps = under(&out, "HELPS").join(" ");
    assert!(
        helps.contains("free 8 more huawei.com/Ascend910: it asks for 24 at once, 16 are free"),
        "{out}"
    );
    assert!(helps.contains("tolerate the taints of 1 node"), "{out}");
    assert!(helps.contains("kubectl uncordon"), "{out}");
    assert!(helps.contains("a higher priority class puts it ahead"), "{out}");
}

#[test]
fn what_all_nodes_together_do_not_have_of_a_kind_is_told() {
    let file = ClusterFile::new().waiting("huge", "team-a", 99, 8);
    let (_, out, _) = file.text(&["explain", "podgroup/huge"]);
    let helps = under(&out, "HELPS").join(" ");
    let wanted = "it asks for 792 huawei.com/Ascend910 at once, and all nodes together have";
    assert!(helps.contains(wanted), "{out}");
    assert!(!helps.contains("more huawei.com/Ascend910"), "waiting does not help: {out}");
}

#[test]
fn programs_get_the_same_with_numbers() {
    let file = ClusterFile::new().waiting("big", "team-a", 3, 8);
    let answer = file.json(&["explain", "big"]);
    assert_eq!(answer["runs"], false);
    let group = &answer["groups"][0];
    assert_eq!(group["standing"], "Waits");
    assert_eq!(group["now"]["reason"], "NoRoom");
    assert_eq!((&group["now"]["placed"], &group["now"]["needed"]), (&json!(1), &json!(3)));
    assert_eq!(group["now"]["nodes"]["taint not tolerated"], 1);
    assert_eq!(group["position"], json!({"place": 1, "of": 1}));
    assert_eq!(group["queues"][0]["name"], "team-a");
    assert_eq!(group["queues"][1]["name"], "org");
    assert_eq!(group["queues"][0]["requested"]["devices"], 24.0);
}

#[test]
fn the_more_important_group_is_first_in_its_queue() {
    let mut file =
        ClusterFile::new().waiting("first", "team-a", 3, 8).waiting("urgent", "team-a", 3, 8);
    file.0["podGroups"][2]["spec"]["priorityClassName"] = json!("urgent");
    let place = |name: &str| file.json(&["explain", name])["groups"][0]["position"].clone();
    assert_eq!(place("urgent"), json!({"place": 1, "of": 2}));
    assert_eq!(place("first"), json!({"place": 2, "of": 2}));
}

#[test]
fn what_the_coordinator_recorded_is_told_apart_from_what_the_engine_says_now() {
    let mut file = ClusterFile::new().waiting("big", "team-a", 3, 8);
    file.0["podGroups"][1]["status"] = json!({
        "conditions": [{"type": "Schedulable", "status": "False", "reason": "OverLimit",
            "message": "queue team-a was full", "lastTransitionTime": "2025-12-31T23:50:00Z"}],
        "schedulingConditions": [{"type": "UnschedulableOnNodePool", "status": "True", "nodePool": "default",
            "transitionID": "1", "reason": "Other", "message": "as KAI sees it"}]});
    let (_, out, _) = file.text(&["explain", "big"]);
    assert!(under(&out, "WHY")[0].starts_with("NoRoom, by the engine at 2026-01-01"), "{out}");
    let expected =
        "Schedulable=False OverLimit, by the coordinator, since 2025-12-31T23:50:00Z (10m ago)";
    assert_eq!(under(&out, "RECORDED")[..2], [expected, "queue team-a was full"]);
    assert!(out.contains("UnschedulableOnNodePool=True Other, by KAI, node pool default"), "{out}");
    let answer = file.json(&["explain", "big"]);
    assert_eq!(answer["groups"][0]["recorded"][0]["reason"], "OverLimit");
}

#[test]
fn a_queue_that_is_full_is_told_with_numbers_and_who_has_them() {
    let file = ClusterFile::new().waiting("more", "team-b", 1, 4);
    let (code, out, _) = file.text(&["explain", "more"]);
    assert_eq!(code, 1);
    let helps = under(&out, "HELPS");
    assert_eq!(
        helps,
        [
            "- raise spec.resources.gpu.limit of Queue team-b from 8 to 12 or more",
            "- or wait until 4 devices of Queue team-b are free (ml/old has 8)"
        ]
    );
}

#[test]
fn a_pod_that_runs_or_is_bound_is_told_with_its_node() {
    let mut bound = pod("bound-0", "bound", 1, "n1");
    bound["status"]["phase"] = json!("Pending");
    let request = json!({"metadata": {"name": "r", "namespace": "ml"},
        "spec": {"podName": "going-0", "selectedNode": "n1"}, "status": {"phase": "Pending"}});
    let file = ClusterFile::new()
        .with("podGroups", [group("bound", "team-a", 1, 1), group("going", "team-a", 1, 2)])
        .with("pods", [bound, pod("going-0", "going", 1, "")])
        .with("bindRequests", [request]);
    let first = |name: &str| {
        let (code, out, _) = file.text(&["explain", "pod", name]);
        (code, out.lines().next().unwrap().to_owned())
    };
    assert_eq!(first("old-0"), (0, "Pod ml/old-0 runs on node n0".to_owned()));
    assert_eq!(first("bound-0"), (0, "Pod ml/bound-0 is bound to node n1".to_owned()));
    assert_eq!(first("going-0"), (0, "Pod ml/going-0 is bound to node n1".to_owned()));
}

#[test]
fn what_fits_is_placed_in_the_next_cycle_and_that_is_no_failure() {
    let file = ClusterFile::new().waiting("small", "team-a", 2, 2);
    let (code, out, _) = file.text(&["explain", "small"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("PodGroup ml/small is placed in the scheduler's next cycle"), "{out}");
    assert!(out.contains("ml/small-0 Pending, next on n1"), "{out}");
}

#[test]
fn what_waits_for_others_to_leave_says_who_and_why_they_go() {
    let mut file = ClusterFile::new().waiting("urgent", "team-b", 1, 8);
    file.0["podGroups"][1]["spec"]["priorityClassName"] = json!("urgent");
    let (code, out, _) = file.text(&["explain", "urgent"]);
    assert_eq!(code, 1, "{out}");
    assert!(out.starts_with("PodGroup ml/urgent waits for others to leave"), "{out}");
    assert!(under(&out, "LEAVING")[0].starts_with("ml/old-0 on n0:"), "{out}");

    // Without the search for them only free room counts, and that is said.
    let (code, out, _) = file.text(&["explain", "urgent", "--search-timeout", "0s"]);
    assert_eq!(code, 1);
    assert!(out.starts_with("PodGroup ml/urgent does not run: OverLimit"), "{out}");
    assert!(out.contains("NOTE       only free room was looked at"), "{out}");
}

#[test]
fn a_group_with_too_few_pods_is_not_in_line_and_gates_are_named() {
    let mut gated = pod("few-1", "few", 1, "");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let file = ClusterFile::new()
        .with("podGroups", [group("few", "team-a", 2, 1)])
        .with("pods", [pod("few-0", "few", 1, ""), gated]);
    let (code, out, _) = file.text(&["explain", "few"]);
    assert_eq!(code, 1);
    assert_eq!(out.lines().next(), Some("PodGroup ml/few does not run: NotEnoughPods"));
    assert_eq!(under(&out, "QUEUE")[0], "team-a: not in line");
    assert!(out.contains("1 pods have a scheduling gate (gates: example.com/wait)"), "{out}");
    assert!(under(&out, "TRIED").is_empty(), "{out}");
}

#[test]
fn a_group_that_has_what_it_needs_runs_though_more_of_it_waits() {
    let file = ClusterFile::new().with("pods", [pod("old-1", "old", 8, "")]);
    let (code, out, _) = file.text(&["explain", "podgroup/old"]);
    assert_eq!(code, 0, "{out}");
    assert!(out.starts_with("PodGroup ml/old runs: 1 of 2 pods have a node"), "{out}");
    assert!(under(&out, "WHY")[0].starts_with("OverLimit"), "{out}");
    assert_eq!(file.text(&["explain", "pod/old-1"]).0, 1);
}

#[test]
fn a_queue_that_is_missing_or_no_leaf_comes_with_those_that_can_be_named() {
    let file = ClusterFile::new().waiting("lost", "nowhere", 1, 1).waiting("high", "org", 1, 1);
    let helps = |name: &str| {
        let answer = file.json(&["explain", name]);
        let group: &Json = &answer["groups"][0];
        (group["now"]["reason"].clone(), group["help"][0].as_str().unwrap().to_owned())
    };
    let (reason, help) = helps("lost");
    assert_eq!(reason, "QueueDoesNotExist");
    assert_eq!(help, "create Queue nowhere, or name one that is there: team-a, team-b");
    let (reason, help) = helps("high");
    assert_eq!(reason, "QueueIsNotALeaf");
    assert!(help.ends_with("team-a, team-b"), "{help}");
}

#[test]
fn a_pod_of_another_scheduler_is_sent_there() {
    let mut other = pod("alone", "", 1, "");
    other["spec"]["schedulerName"] = json!("default-scheduler");
    let file = ClusterFile::new()
        .with("pods", [other, pod("bare", "", 1, ""), pod("lost", "gone", 1, "")]);
    let help = |name: &str| {
        let (code, out, _) = file.text(&["explain", name]);
        (code, under(&out, "HELPS").join(" "))
    };
    let (code, text) = help("alone");
    assert_eq!(code, 1);
    assert!(
        text.contains("default-scheduler; Muster places pods with schedulerName: muster-scheduler"),
        "{text}"
    );
    assert!(help("bare").1.contains("the pod grouper has given them no pod group"), "{text}");
    assert!(help("lost").1.contains("create PodGroup gone in namespace ml"), "{text}");
}

#[test]
fn pods_of_further_schedulers_are_taken_over() {
    let mut file = ClusterFile::new().waiting("small", "team-a", 1, 1);
    file.0["pods"][1]["spec"]["schedulerName"] = json!("kai-scheduler");
    let (_, out, _) = file.ask(&["explain", "small"]);
    assert!(out.contains("its scheduler is kai-scheduler"), "{out}");
    let names = ["--scheduler-name", "muster-scheduler,kai-scheduler"];
    let (code, out, _) = file.ask(&[&["explain", "small"][..], &names].concat());
    assert_eq!(code, 0);
    assert!(!out.contains("its scheduler is"), "{out}");
}

#[test]
fn a_priority_class_that_does_not_exist_is_said() {
    for devices in [1, 16] {
        let mut file = ClusterFile::new().waiting("odd", "team-a", 1, devices);
        file.0["podGroups"][1]["spec"]["priorityClassName"] = json!("nobody");
        let (_, out, _) = file.text(&["explain", "podgroup/odd"]);
        let help = under(&out, "HELPS").join(" ");
        assert!(help.contains("priority class nobody does not exist: create it"), "{out}");
    }
}

#[test]
fn a_group_that_asked_for_no_second_attempt_is_passed_over() {
    let mut file = ClusterFile::new().waiting("once", "team-a", 1, 1);
    file.0["podGroups"][1]["spec"]["schedulingBackoff"] = json!(1);
    file.0["podGroups"][1]["status"] = json!({"schedulingConditions": [
        {"type": "UnschedulableOnNodePool", "status": "True", "nodePool": "default", "transitionID": "1"}]});
    let (code, out, _) = file.text(&["explain", "podgroup/once"]);
    assert_eq!(code, 1);
    assert!(out.contains("the scheduler passes it over"), "{out}");
    assert!(out.contains("set spec.schedulingBackoff to -1"), "{out}");
}

#[test]
fn of_many_groups_those_that_wait_are_told_about() {
    let mut file = ClusterFile::new();
    for at in 0..7 {
        let name = format!("many-{at}");
        let queue = if at < 6 { "nowhere" } else { "team-a" };
        let made =
            crate::cluster_file::owned(group(&name, queue, 1, at + 1), "ModelServing", "many");
        file = file.with("podGroups", [made]).with("pods", [pod(&format!("p-{at}"), &name, 1, "")]);
    }
    let (code, out, _) = file.text(&["explain", "modelserving/many"]);
    assert_eq!(code, 1);
    let told = |out: &str| out.lines().filter(|line| line.starts_with("GROUP")).count();
    assert_eq!(told(&out), 5, "{out}");
    let beside = "BESIDE     1 groups run or are placed in the next cycle, 1 more groups wait: -o wide tells of each";
    assert!(out.contains(beside), "{out}");
    assert_eq!(told(&file.ask(&["explain", "modelserving/many", "-o", "wide"]).1), 7);
}
