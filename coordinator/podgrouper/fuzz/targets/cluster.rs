//! Clusters, as a JSON list of objects whose first is the pod.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    laws::cluster(bytes);
});
