//! Pure functions, call by call.

use muster_conformance::Recordings;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use muster_modelserving::api::{ModelServing, Role};
use muster_modelserving::naming::{self, Shape};
use muster_modelserving::seen::{PodGroupApi, Seen};
use muster_modelserving::status::{Places, set_condition};
use muster_modelserving::{budget, revision};
use serde_json::{Value, json};

use crate::matching::Tokens;
use crate::{Outcome, cases};

/// All cases of names and numbers.
pub fn run(recordings: &Recordings) -> Vec<Outcome> {
    cases(recordings, "naming").iter().map(outcome).collect()
}

fn outcome(case: &Value) -> Outcome {
    let mut tokens = Tokens::default();
    let mut result = Ok(());
    let calls = case["given"]["calls"].as_array().unwrap();
    let results = case["expect"]["results"].as_array().unwrap();
    let mut literal: Vec<(Value, Value)> = Vec::new();
    for (call, expected) in calls.iter().zip(results) {
        let got = answer(call["fn"].as_str().unwrap(), call["args"].as_array().unwrap());
        let opaque = matches!(call["fn"].as_str(), Some("roleTemplateHash" | "revision"));
        let matched = if opaque {
            // What matters is which are equal.
            let same = literal.iter().all(|(it, other)| (it == expected) == (*other == got));
            literal.push((expected.clone(), got.clone()));
            if same { Ok(()) } else { Err(format!("equal to another, or not: {got}")) }
        } else {
            tokens.value(expected, &got)
        };
        result = result.and(matched.map_err(|miss| format!("{call}: {miss}")));
    }
    Outcome { name: case["name"].as_str().unwrap().to_owned(), result }
}

fn answer(function: &str, args: &[Value]) -> Value {
    let text = |at: usize| args[at].as_str().unwrap();
    let number = |at: usize| args[at].as_i64().unwrap();
    let index = |at: usize| i32::try_from(number(at)).unwrap();
    let or_error = |result: Result<i64, String>| match result {
        Ok(number) => json!(number),
        Err(error) => json!({ "error": error }),
    };
    match function {
        "servingGroupName" => naming::group(text(0), number(1)).into(),
        "roleID" => naming::role_id(text(0), number(1)).into(),
        "podName" => Shape::Kthena.pod("", text(0), text(1), index(2)).into(),
        "controllerRevisionName" => naming::revision(text(0), text(1)).into(),
        "parentAndOrdinal" => json!(naming::parent_and_ordinal(text(0))),
        "safeEncode" => revision::safe_encode(text(0)).into(),
        "fnv32" => revision::fnv32(text(0).as_bytes()).into(),
        "roleTemplateHash" => revision::role(&role(&args[0])).into(),
        "revision" => {
            let roles: Vec<Role> = serde_json::from_value(args[0].clone()).unwrap();
            revision::roles(&roles).into()
        }
        "scaled" => or_error(budget::scaled(&args[0], number(1), args[2].as_bool().unwrap())),
        "missingOrdinals" => {
            let there: Vec<i64> = serde_json::from_value(args[1].clone()).unwrap();
            json!(budget::missing(number(0), &there, number(2)))
        }
        "calMaxScaleDown" => {
            or_error(budget::may_go(&role(&args[0]), number(1), number(2), number(3)))
        }
        "podState" => {
            let pod: Pod = serde_json::from_value(args[0].clone()).unwrap();
            let serving = ModelServing::default();
            let seen = Seen::new(&serving, Shape::Kthena, PodGroupApi::Absent);
            let pod = seen.read_pod(&pod);
            json!({"failed": pod.failed, "restarted": pod.restarted, "runningAndReady": pod.ready})
        }
        "condition" => condition(args),
        other => json!(format!("there is no {other}")),
    }
}

fn role(role: &Value) -> Role {
    serde_json::from_value(role.clone()).unwrap()
}

fn condition(args: &[Value]) -> Value {
    let serving: ModelServing = serde_json::from_value(args[0].clone()).unwrap();
    let places = |at: usize| -> Vec<usize> { serde_json::from_value(args[at].clone()).unwrap() };
    let places = Places { progressing: places(1), updated: places(2), current: places(3) };
    let mut conditions = serving.status.clone().unwrap_or_default().conditions;
    let changed = set_condition(&mut conditions, &serving, &places, Timestamp::UNIX_EPOCH);
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|it| json!({"type": it.kind, "status": it.status, "reason": it.reason, "message": it.message}))
        .collect();
    json!({ "changed": changed, "conditions": conditions })
}
