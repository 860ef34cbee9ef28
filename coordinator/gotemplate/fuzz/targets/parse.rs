//! Sources: any text parses or is refused with a place inside it.
#![no_main]

use gotemplate::{Functions, Template};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    match Template::parse("t", source, &Functions::standard()) {
        Ok(template) => assert!(template.definitions().count() > 0),
        Err(error) => {
            assert!(error.line <= 1 + source.matches('\n').count(), "{error}");
            assert!(!error.message.is_empty());
        }
    }
});
