//! Clusters, as JSON or packed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::snapshot(bytes);
});
