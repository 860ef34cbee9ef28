//! Which kinds take strategic patches; how they merge is in `tests/recorded.rs`.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

#[test]
fn only_built_in_kinds_take_strategic_patches() {
    assert!(supports("", "Pod") && supports("apps", "Deployment"));
    assert!(!supports("x.io", "Thing") && !supports("apps", "Pod"));
}

#[test]
fn a_patch_that_is_no_object_or_lists_retained_keys_wrongly_is_a_bad_request() {
    let shape = Shape::builtin("", "Pod");
    for patch in
        [json!([]), json!({"spec": {"$retainKeys": "x"}}), json!({"$deleteFromPrimitiveList/x": 1})]
    {
        let live = json!({"spec": {"nodeName": "n"}});
        assert_eq!(strategic(&live, &patch, &shape).unwrap_err().code, 400, "{patch}");
    }
}
