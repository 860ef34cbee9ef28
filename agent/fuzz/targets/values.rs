//! PCI addresses, joins, digests, inventories.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::values(bytes);
});
