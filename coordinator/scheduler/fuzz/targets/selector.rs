//! Selectors of devices, as text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::selector(bytes);
});
