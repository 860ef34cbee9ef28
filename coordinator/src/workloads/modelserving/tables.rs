//! What a ModelServing says of its rank tables: the conditions of all its groups, in two. Pure.

use muster_kube::Condition;

use super::table_mutator::TableError;
use crate::ranktables::conditions::{self, RANKTABLE_READY, reason};

/// Something is wrong with a rank table that does not get better by itself.
pub const FAILED: &str = "Failed";

/// A rank group, as its record says; none where there is no record yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub group: String,
    /// Whether it has a table: reason and message.
    pub ready: Option<(bool, String, String)>,
}

// === impl Table ===

impl Table {
    /// Whether the group has its table.
    pub fn is_there(&self) -> bool {
        matches!(&self.ready, Some((true, ..)))
    }
}

/// What somebody must do something about, if there is anything.
pub fn failure(list: &[Condition]) -> Option<&str> {
    let failed = list.iter().find(|one| one.kind == FAILED && one.status == "True");
    failed.map(|one| one.message.as_str())
}

/// The conditions that follow, put among the others. Whether that is news: a status or a reason has changed.
pub fn set(
    list: &mut Vec<Condition>,
    error: Option<&TableError>,
    tables: &[Table],
    now: &str,
) -> bool {
    let (ready, word, message) = readiness(error, tables);
    let stuck = (!ready && (error.is_some() || reason::STUCK.contains(&word.as_str())))
        .then(|| (word.clone(), message.clone()));
    let mut news = put(list, RANKTABLE_READY, ready, &word, &message, now);
    match stuck {
        Some((word, message)) => news |= put(list, FAILED, true, &word, &message, now),
        None if list.iter().any(|one| one.kind == FAILED && one.status == "True") => {
            let message = "what was wrong with rank tables is mended";
            news |= put(list, FAILED, false, "Recovered", message, now);
        }
        None => {}
    }
    news
}

/// Takes the conditions away: no rank tables are wanted any more. Whether there were some.
pub fn clear(list: &mut Vec<Condition>) -> bool {
    let before = list.len();
    list.retain(|one| one.kind != RANKTABLE_READY && one.kind != FAILED);
    list.len() != before
}

/// What is shown: of the groups without a table the one that most needs somebody.
fn readiness(error: Option<&TableError>, tables: &[Table]) -> (bool, String, String) {
    if let Some(error) = error {
        return (false, error.reason.to_owned(), error.message.clone());
    }
    let all = tables.len();
    let has = |table: &&Table| table.is_there();
    let there = tables.iter().filter(has).count();
    let count = format!("{there} of {all} rank groups have their table");
    if all == 0 {
        return (false, reason::NO_PODS.to_owned(), "no pod of a rank group is there".to_owned());
    }
    let lacking = tables.iter().filter(|table| !has(table));
    let stuck = |table: &&Table| {
        let word = table.ready.as_ref().map(|(_, word, _)| word.as_str()).unwrap_or_default();
        // The first of those that are equal.
        (!reason::STUCK.contains(&word), table.group.clone())
    };
    match lacking.min_by_key(stuck) {
        None => (true, reason::PUBLISHED.to_owned(), count),
        Some(Table { group, ready: Some((_, word, message)) }) => {
            (false, word.clone(), format!("{count}; {group}: {message}"))
        }
        Some(Table { group, ready: None }) => (
            false,
            reason::WAITING.to_owned(),
            format!("{count}; {group}: its ConfigMap is being created"),
        ),
    }
}

fn put(
    list: &mut Vec<Condition>,
    kind: &str,
    status: bool,
    word: &str,
    message: &str,
    now: &str,
) -> bool {
    let known = list.iter().find(|one| one.kind == kind).cloned();
    conditions::set(list, kind, status, word, message, now);
    let Some(known) = known else { return true };
    // Those of a person's mistake are worth a write when the mistake is another one.
    known.status != if status { "True" } else { "False" }
        || known.reason != word
        || (reason::STUCK.contains(&word) && known.message != message)
}

/// What a record says of its group.
pub fn read(map: &k8s_openapi::api::core::v1::ConfigMap) -> Option<(bool, String, String)> {
    let annotations = map.metadata.annotations.as_ref()?;
    let text = annotations.get(crate::ranktables::record::CONDITIONS)?;
    let list: Vec<conditions::Condition> = serde_json::from_str(text).ok()?;
    let ready = list.into_iter().find(|one| one.kind == RANKTABLE_READY)?;
    Some((ready.status == "True", ready.reason, ready.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(group: &str, ready: bool, word: &str) -> Table {
        Table {
            group: group.to_owned(),
            ready: Some((ready, word.to_owned(), format!("is {word}"))),
        }
    }

    fn said(list: &[Condition], kind: &str) -> (String, String, String) {
        let one = list.iter().find(|one| one.kind == kind).unwrap();
        (one.status.clone(), one.reason.clone(), one.message.clone())
    }

    #[test]
    fn the_group_that_needs_somebody_is_named_before_those_that_wait() {
        let mut list = Vec::new();
        let tables = [
            table("a", true, "Published"),
            table("b", false, "WaitingForPods"),
            table("c", false, "Timeout"),
        ];
        assert!(set(&mut list, None, &tables, "t1"));
        let (status, word, message) = said(&list, RANKTABLE_READY);
        assert_eq!((status.as_str(), word.as_str()), ("False", "Timeout"));
        assert_eq!(message, "1 of 3 rank groups have their table; c: is Timeout");
        assert_eq!(said(&list, FAILED).0, "True");
        assert_eq!(failure(&list), Some(message.as_str()));
        assert!(!set(&mut list, None, &tables, "t2"), "nothing is new");
        assert_eq!(list[0].last_transition_time, "t1");
    }

    #[test]
    fn failed_is_said_only_after_something_failed() {
        let mut list = Vec::new();
        set(&mut list, None, &[table("a", false, "WaitingForPods")], "t1");
        assert!(list.iter().all(|one| one.kind != FAILED));
        let trouble = TableError { reason: "TemplateInvalid", message: "gone".to_owned() };
        assert!(set(&mut list, Some(&trouble), &[], "t2"));
        assert_eq!(said(&list, FAILED).1, "TemplateInvalid");
        assert!(set(&mut list, None, &[table("a", true, "Published")], "t3"));
        assert_eq!(
            said(&list, FAILED),
            (
                "False".into(),
                "Recovered".into(),
                "what was wrong with rank tables is mended".into()
            )
        );
        assert_eq!(said(&list, RANKTABLE_READY).2, "1 of 1 rank groups have their table");
        assert!(clear(&mut list) && list.is_empty() && !clear(&mut list));
    }
}
