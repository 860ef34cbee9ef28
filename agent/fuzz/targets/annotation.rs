//! The pods' annotation, as anybody may have written it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::annotation(bytes);
});
