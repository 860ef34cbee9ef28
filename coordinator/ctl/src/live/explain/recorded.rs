//! What the coordinator, or KAI, wrote into a pod group's status.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value as Json;

use super::find::text;

/// The coordinator's condition.
const SCHEDULABLE: &str = "Schedulable";

/// Something that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recorded {
    /// `status.conditions` is the coordinator's, `status.schedulingConditions` KAI's, or the coordinator's in KAI's form.
    pub(crate) at: &'static str,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node_pool: String,
}

/// What a pod group's status says of its scheduling: the coordinator's word first, then KAI's latest of each node pool if
/// it is another.
pub(crate) fn recorded(group: &Json) -> Vec<Recorded> {
    let list = |field: &str| group["status"][field].as_array().into_iter().flatten();
    let mut found: Vec<Recorded> = list("conditions")
        .filter(|condition| condition["type"] == SCHEDULABLE)
        .map(|condition| read(condition, "status.conditions"))
        .collect();
    let mut theirs: Vec<(i64, Recorded)> = list("schedulingConditions")
        .map(|condition| {
            let number = text(condition, "transitionID").parse().unwrap_or(0);
            (number, read(condition, "status.schedulingConditions"))
        })
        .collect();
    theirs.sort_by(|(left, _), (right, _)| right.cmp(left));
    for (_, condition) in theirs {
        // The coordinator says the same in both lists; once is enough.
        let known = |other: &Recorded| match other.at == condition.at {
            true => other.node_pool == condition.node_pool,
            false => other.message == condition.message,
        };
        if !found.iter().any(known) {
            found.push(condition);
        }
    }
    found
}

fn read(condition: &Json, at: &'static str) -> Recorded {
    // KAI puts the words into a list of reasons.
    let first = &condition["reasons"][0];
    let word = |field: &str| match text(condition, field) {
        "" => text(first, field).to_owned(),
        word => word.to_owned(),
    };
    Recorded {
        at,
        kind: text(condition, "type").to_owned(),
        status: text(condition, "status").to_owned(),
        reason: word("reason"),
        message: word("message"),
        since: text(condition, "lastTransitionTime").parse().ok(),
        node_pool: text(condition, "nodePool").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_coordinators_word_is_first_and_of_kais_the_latest_of_each_pool() {
        let kai = |pool: &str, id: &str, message: &str| {
            json!({"type": "UnschedulableOnNodePool", "nodePool": pool, "transitionID": id,
                "status": "True", "reasons": [{"reason": "R", "message": message}]})
        };
        let group = json!({"status": {
            "schedulingConditions": [kai("a", "1", "old"), kai("a", "10", "new"), kai("b", "2", "b")],
            "conditions": [{"type": "Other", "status": "True"},
                {"type": "Schedulable", "status": "False", "reason": "NoRoom", "message": "none",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let found = recorded(&group);
        let words: Vec<_> =
            found.iter().map(|one| (one.reason.as_str(), one.message.as_str())).collect();
        assert_eq!(words, [("NoRoom", "none"), ("R", "new"), ("R", "b")]);
        assert_eq!(found[0].since, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        let same = json!({"status": {"conditions": [{"type": "Schedulable", "message": "new"}],
            "schedulingConditions": [kai("a", "1", "new")]}});
        assert_eq!(recorded(&same).len(), 1);
        assert_eq!(recorded(&json!({"status": {"conditions": "odd"}})), []);
    }
}
