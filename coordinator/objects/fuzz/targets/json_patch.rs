//! JSON and merge patches: two lines of JSON, the object and the patch.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_objects::patch::{json_patch, merge_patch};
use serde_json::Value;

fuzz_target!(|text: &str| {
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    let (Some(Ok(live)), Some(Ok(patch))) = (lines.next(), lines.next()) else { return };
    if let Ok(patched) = json_patch(&live, &patch) {
        let text = patched.to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "too deep to be read: {text}");
    }
    let merged = merge_patch(live, &patch);
    assert_eq!(merge_patch(merged.clone(), &patch), merged, "a merge patch sent twice");
});
