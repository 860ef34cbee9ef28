//! DIJobs, as JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::object(bytes);
});
