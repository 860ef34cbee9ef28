//! Names of pods, volumes and files, and the file that remembers deliveries.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::deliver(bytes);
});
