//! What an API server with our CRD and our webhook says of an object, compared with the recordings.
//!
//! ```text
//!   raw object ──CRD──▶ pruned, completed ──CRD──▶ schema errors ──none──▶ read ──▶ webhook errors
//!                            │ as the patch says?        │ same fields?               │ same errors, same text?
//! ```

use muster_conformance::Recordings;

use muster_modelserving::check::{UNKNOWN, check};
use muster_modelserving::shape::read_kthena;
use muster_modelserving::validate::{message, validate};
use muster_objects::patch::json_patch;
use muster_objects::schema::Schema;
use serde_json::{Value, json};

use crate::Outcome;

const DEFINITION: &str = include_str!("../../../../deploy/crds/modelserving.yaml");

/// Replays the webhook cases , in the order of their names.
pub fn run(recordings: &Recordings) -> Vec<Outcome> {
    let definition: Value = serde_saphyr::from_str(DEFINITION).unwrap();
    let schema =
        Schema::compile(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
    crate::cases(recordings, "webhook")
        .into_iter()
        .map(|case| Outcome {
            name: case["name"].as_str().unwrap_or_default().to_owned(),
            result: replay(&schema, &case).and_then(|()| match needs_server(&case) {
                true => Ok(()),
                false => offline(&case),
            }),
        })
        .collect()
}

fn replay(schema: &Schema, case: &Value) -> Result<(), String> {
    let (given, expected) = (&case["given"], &case["expect"]);
    let raw = &given["modelServing"];
    let mut object = raw.clone();
    if given["skipSchema"] != json!(true) {
        complete(schema, &mut object);
        let wanted = json_patch(raw, &expected["patch"]).map_err(|e| e.to_string())?;
        same("the completed object", &object, &wanted)?;
        let old = Some(&given["oldModelServing"]).filter(|old| !old.is_null()).map(|old| {
            let mut old = old.clone();
            complete(schema, &mut old);
            old
        });
        let errors = schema.validate(&object, old.as_ref());
        // That rules were left out is no error of a field.
        let errors = errors.into_iter().filter(|error| error.field != "<nil>");
        let errors: Vec<Value> =
            errors.map(|error| json!([error.field, error.kind.reason()])).collect();
        if !errors.is_empty() {
            same("allowed", &json!(false), &expected["allowed"])?;
            same("deniedBy", &json!("schema"), &expected["deniedBy"])?;
            return same("errors", &set(errors), &set(fields(&expected["errors"])));
        }
    }
    let serving = match read_kthena(&object) {
        Ok(serving) => serving,
        Err(why) => {
            same("allowed", &json!(false), &expected["allowed"])?;
            return same(&why.to_string(), &json!("decode"), &expected["deniedBy"]);
        }
    };
    let errors = validate(&serving);
    same("allowed", &json!(errors.is_empty()), &expected["allowed"])?;
    if errors.is_empty() {
        return Ok(());
    }
    same("deniedBy", &json!("webhook"), &expected["deniedBy"])?;
    let found: Vec<Value> = errors
        .iter()
        .map(|e| json!({"field": e.field, "type": e.kind.reason(), "detail": e.detail, "badValue": e.bad_value}))
        .collect();
    same("errors", &json!(found), &expected["errors"])?;
    same("message", &json!(message(&errors)), &expected["message"])
}

/// Whether more than the file decides: the old object, or what only the webhook was given.
fn needs_server(case: &Value) -> bool {
    case["event"] == "update" || case["given"]["skipSchema"] == json!(true)
}

/// From the file alone the same is found as by an API server, as far as fields go.
fn offline(case: &Value) -> Result<(), String> {
    let raw = &case["given"]["modelServing"];
    let found = check(raw).into_iter().filter(|finding| finding.detail != UNKNOWN);
    let found: Vec<Value> = found.map(|finding| json!(finding.field)).collect();
    same("what a file is checked for", &json!(found.is_empty()), &case["expect"]["allowed"])
}

fn complete(schema: &Schema, object: &mut Value) {
    schema.prune(object);
    schema.default(object);
}

/// Field and type of each recorded error.
fn fields(errors: &Value) -> Vec<Value> {
    let errors = errors.as_array().into_iter().flatten();
    errors.map(|error| json!([error["field"], error["type"]])).collect()
}

fn set(mut errors: Vec<Value>) -> Value {
    errors.sort_by_key(Value::to_string);
    errors.dedup();
    Value::Array(errors)
}

fn same(what: &str, ours: &Value, recorded: &Value) -> Result<(), String> {
    if ours == recorded {
        return Ok(());
    }
    Err(format!("{what}\n    ours     {ours}\n    recorded {recorded}"))
}
