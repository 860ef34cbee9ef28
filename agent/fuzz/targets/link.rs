//! Messages of agents and hubs.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::link(bytes);
});
