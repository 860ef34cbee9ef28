//! Configurations and shards, as YAML.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::configuration(bytes);
});
