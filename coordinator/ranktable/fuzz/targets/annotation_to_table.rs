//! Annotations of a group's pods, one per line, through both shipped parsers into a table.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::annotation_to_table(bytes);
});
