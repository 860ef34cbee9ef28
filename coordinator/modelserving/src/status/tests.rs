//! Numbers and conditions.

use serde_json::json;

use super::*;

fn serving(replicas: i32, partition: Option<i32>) -> ModelServing {
    let mut serving = json!({
        "metadata": {"name": "llm", "generation": 3},
        "spec": {"replicas": replicas, "template": {"roles": [{"name": "server"}]}},
    });
    if let Some(partition) = partition {
        serving["spec"]["rolloutStrategy"] =
            json!({"rollingUpdateConfiguration": {"partition": partition}});
    }
    serde_json::from_value(serving).unwrap()
}

fn groups(list: &[(GroupState, &str)]) -> Vec<Group> {
    let group = |(at, (state, revision)): (usize, &(GroupState, &str))| Group {
        name: format!("llm-{at}").into(),
        ordinal: at as i64,
        state: *state,
        revision: (*revision).into(),
        roles: Vec::new(),
    };
    list.iter().enumerate().map(group).collect()
}

fn status(serving: &ModelServing, list: &[(GroupState, &str)]) -> Status {
    of(serving, &groups(list), &"new".into(), Timestamp::UNIX_EPOCH)
}

fn raised(status: &Status) -> Vec<(&str, &str)> {
    let raised = status.conditions.iter().filter(|condition| condition.status == "True");
    raised.map(|condition| (condition.kind.as_str(), condition.message.as_str())).collect()
}

#[test]
fn groups_on_their_way_out_count_and_are_neither_old_nor_new() {
    use GroupState::{Deleting, Running};
    let list = [(Running, "old"), (Running, "new"), (Deleting, "old")];
    let status = status(&serving(3, None), &list);
    assert_eq!((status.replicas, status.available_replicas), (3, 2));
    assert_eq!((status.current_replicas, status.updated_replicas), (1, 1));
    assert_eq!((&*status.current_revision, &*status.update_revision), ("old", "new"));
    let message = "Some groups is progressing: [2], Updated Groups are: [1]";
    assert_eq!(raised(&status), [(UPDATING, message)]);
}

#[test]
fn when_all_is_new_and_ready_the_new_is_the_current() {
    let list = [(GroupState::Running, "new"), (GroupState::Running, "new")];
    let status = status(&serving(2, None), &list);
    assert_eq!((status.current_replicas, &*status.current_revision), (2, "new"));
    assert_eq!(raised(&status), [(AVAILABLE, "All Serving groups are ready")]);
    let kept =
        super::of(&serving(2, Some(0)), &groups(&list), &"new".into(), Timestamp::UNIX_EPOCH);
    assert_eq!(kept.current_replicas, 0, "with a partition, only old groups count");
}

#[test]
fn a_condition_that_is_true_keeps_its_message() {
    let mut serving = serving(2, None);
    use GroupState::{Creating, Running};
    serving.status = Some(status(&serving, &[(Creating, "new"), (Creating, "new")]));
    let later = status(&serving, &[(Running, "new"), (Creating, "new")]);
    assert_eq!(raised(&later), [(PROGRESSING, "Some groups is progressing: [0 1]")]);
    serving.status = Some(later);
    let ready = status(&serving, &[(Running, "new"), (Running, "new")]);
    assert_eq!(raised(&ready), [(AVAILABLE, "All Serving groups are ready")]);
    assert_eq!(ready.conditions[0].status, "False");
}

#[test]
fn the_scale_subresource_selects_one_pod_per_group() {
    let status = status(&serving(1, None), &[(GroupState::Running, "new")]);
    let prefix = "modelserving.volcano.sh";
    let expected = format!(
        "{prefix}/entry=true,{prefix}/name=llm,{prefix}/role-id=server-0,{prefix}/role=server"
    );
    assert_eq!(status.label_selector, expected);
    assert_eq!(status.observed_generation, 3);
}
