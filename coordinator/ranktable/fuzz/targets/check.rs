//! Tables that are checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::check(bytes);
});
