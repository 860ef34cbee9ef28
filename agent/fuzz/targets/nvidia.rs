//! The driver's files and `nvidia-smi`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::nvidia(bytes);
});
