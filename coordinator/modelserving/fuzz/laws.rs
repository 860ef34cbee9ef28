//! What must hold of every ModelServing that is read, whatever the input.
//!
//! ```text
//!   targets/object.rs (libFuzzer) ─┐
//!                                  ├──▶ a law: bytes in, asserts inside; says whether anything was read
//!   ../tests/laws.rs (proptest) ───┘
//! ```

use muster_kube::FieldError;
use muster_modelserving::api::ModelServing;
use muster_modelserving::check::check;
use muster_modelserving::defaults;
use muster_modelserving::ranktable::{Ranktables, Slot};
use muster_modelserving::shape::{Serving, Shape, read_kthena, read_short};
use muster_modelserving::short::{self, ShortServing};
use muster_modelserving::validate;
use muster_ranktable::Level;
use serde_json::Value;

/// Raw JSON is read or refused with a reason; what is read can be judged, translated and asked for its rank groups.
pub fn object(bytes: &[u8]) -> bool {
    let Ok(raw) = serde_json::from_slice::<Value>(bytes) else { return false };
    let read = Serving::read(&raw);
    if let Err(why) = &read {
        assert!(!why.field.is_empty() && !why.why.is_empty(), "{why}");
    }
    let found = check(&raw);
    judged(&found);
    assert!(read.is_ok() || !found.is_empty(), "what cannot be read is found");
    // Both shapes, with and without defaults: half of an object may make sense to the other one.
    for shape in Shape::ALL {
        let mut filled = raw.clone();
        defaults::fill(shape, &mut filled);
        let once = filled.clone();
        defaults::fill(shape, &mut filled);
        assert_eq!(filled, once, "defaults are filled in once");
        for raw in [&raw, &filled] {
            if let Ok(serving) = read_kthena(raw) {
                kthena(&serving);
            }
            if let Ok(serving) = read_short(raw) {
                short(&serving);
            }
        }
    }
    read.is_ok()
}

fn kthena(serving: &ModelServing) {
    let errors = validate::validate(serving);
    judged(&errors);
    let text = validate::message(&errors);
    assert!(text.starts_with("validation failed:"));
    let again = serde_json::to_value(serving).expect("it is JSON");
    let again = read_kthena(&again).expect("what was read can be read again");
    assert_eq!(again.spec, serving.spec);
    ranks(serving, Shape::Kthena, errors.is_empty());
}

fn short(serving: &ShortServing) {
    let errors = short::validate(serving);
    judged(&errors);
    let translated = short::translate(serving);
    assert_eq!(translated.spec.replicas, Some(1));
    let roles = &translated.spec.template.roles;
    assert_eq!(roles.len(), serving.spec.roles.len());
    assert!(roles.iter().all(|role| role.worker_replicas == 0 && role.replicas.is_some()));
    let _ = validate::validate(&translated);
    ranks(&translated, Shape::Short, errors.is_empty());
}

fn judged(errors: &[FieldError]) {
    for error in errors {
        assert!(error.to_string().starts_with(&format!("{}: ", error.field)));
        assert!(!error.field.is_empty() && !error.remedy.is_empty(), "{error}");
    }
}

/// Every pod of a role has a rank group, whose name fits a label and says whose it is.
fn ranks(serving: &ModelServing, shape: Shape, valid: bool) {
    let name = serving.metadata.name.clone().unwrap_or_default();
    for level in [None, Some(Level::Role), Some(Level::Group)] {
        let Ok(Some(wanted)) = Ranktables::read(serving, shape, level) else { continue };
        let group = format!("{name}-0");
        for role in &serving.spec.template.roles {
            let id = format!("{}-0", role.name);
            let slot = Slot { group: &group, role: &role.name, role_id: &id, index: 0 };
            let ranks = wanted.group(&slot).expect("the role is there");
            assert!(ranks.name.len() <= 63, "{}", ranks.name);
            assert_eq!(wanted.group(&slot), Some(ranks.clone()), "it is decided the same again");
            let marks = wanted.marks(&slot);
            assert_eq!(marks.labels.values().collect::<Vec<_>>(), [&ranks.name]);
            assert!(marks.annotations.values().any(|value| *value == ranks.size.to_string()));
            if valid {
                assert!(ranks.name.starts_with(&name), "a valid object's names are not shortened");
            }
        }
    }
}
