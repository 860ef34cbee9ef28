//! Server-side apply: two lines of JSON, the live object and what is applied. Twice is once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_objects::apply::{Apply, apply};
use muster_objects::managed::Reset;
use muster_objects::shape::Shape;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    let (Some(Ok(live)), Some(Ok(config))) = (lines.next(), lines.next()) else { return };
    for kind in ["Pod", "Service", "ConfigMap"] {
        let shape = Shape::builtin("", kind);
        let send = |live: &Value, force| {
            apply(Apply {
                live: live.is_object().then_some(live),
                config: &config,
                manager: "fuzz",
                force,
                subresource: "",
                api_version: "v1",
                kind,
                now: "2026-01-02T03:04:05Z",
                shape: &shape,
                reset: &Reset::default(),
            })
        };
        if let Ok(once) = send(&live, true) {
            let twice = send(&once, false).expect("the second time");
            assert_eq!(once, twice, "{kind}");
        }
    }
});
