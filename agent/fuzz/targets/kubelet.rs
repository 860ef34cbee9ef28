//! The kubelet's checkpoint, a plugin's answer, ids of devices.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::kubelet(bytes);
});
