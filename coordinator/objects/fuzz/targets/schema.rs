//! Schemas: two lines of JSON, an OpenAPI schema and an object. Pruning and defaulting twice is once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_objects::schema::Schema;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let mut lines = text.lines().map(serde_json::from_str::<Value>);
    let (Some(Ok(schema)), Some(Ok(mut object))) = (lines.next(), lines.next()) else { return };
    let Ok(schema) = Schema::compile(&schema) else { return };
    schema.prune(&mut object);
    schema.default(&mut object);
    let mut again = object.clone();
    assert!(schema.prune(&mut again).is_empty() || again != object);
    schema.default(&mut again);
    assert_eq!(again, object);
    let old = object.clone();
    let _errors = schema.validate(&object, Some(&old));
    let _errors = schema.validate_status(&object, None);
});
