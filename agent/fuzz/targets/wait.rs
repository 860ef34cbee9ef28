//! A table in a file, and how long to wait for it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::wait(bytes);
});
