//! Requests: the first byte says which, the rest is the body.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::request(bytes);
});
