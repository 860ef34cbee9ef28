//! Packed tables.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::unpack(bytes);
});
