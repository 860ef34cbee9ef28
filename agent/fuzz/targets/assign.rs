//! Who holds what: pods, list, checkpoint and inventory in four lines of JSON.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::assign(bytes);
});
