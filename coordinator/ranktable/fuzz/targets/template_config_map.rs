//! Template ConfigMaps.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::template_config_map(bytes);
});
