//! Files of RDMA cards and PCI functions.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::sysfs(bytes);
});
