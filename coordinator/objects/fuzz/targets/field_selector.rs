//! Field selectors: any text parses or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_objects::select::FieldSelector;
use serde_json::json;

fuzz_target!(|text: &str| {
    let object = json!({"metadata": {"name": "x", "namespace": "y"}, "spec": {"nodeName": ""}});
    if let Ok(selector) = FieldSelector::parse(text, &["metadata.name", "spec.nodeName"]) {
        let matches = selector.matches(&object);
        assert!(matches || !selector.is_everything());
        // A kind without fields of its own reads the same text the same way, or refuses it.
        if let Ok(plain) = FieldSelector::parse_plain(text) {
            assert_eq!(plain.matches(&object), matches);
        }
    }
});
