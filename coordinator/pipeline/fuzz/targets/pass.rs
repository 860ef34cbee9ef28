//! A job, its runtime and what is there, as JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::pass(bytes);
});
