//! The kernel's network files, and `--server-id`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::net(bytes);
});
