//! Numberings in the record of a group.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::numbering(bytes);
});
