//! `npu-smi`, `hccn_tool`, `hccn.conf` and the driver's own files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::ascend(bytes);
});
