//! Label selectors: any text parses or is refused, and never matches both itself and its opposite.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_objects::select::LabelSelector;
use serde_json::json;

fuzz_target!(|text: &str| {
    if let Ok(selector) = LabelSelector::parse(text) {
        let object = json!({"metadata": {"labels": {"a": "1", "b": ""}}});
        assert_eq!(selector.matches(&object), selector.matches_labels(&object["metadata"]["labels"]));
        if selector.is_everything() {
            assert!(selector.matches(&json!({})));
        }
    }
});
