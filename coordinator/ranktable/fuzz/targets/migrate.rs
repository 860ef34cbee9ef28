//! Others' tables and annotations that are taken over.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::migrate(bytes);
});
