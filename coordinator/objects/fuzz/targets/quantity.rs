//! Quantities: what parses prints as something that parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_kube::quantity::Quantity;

fuzz_target!(|text: &str| {
    if let Ok(quantity) = text.parse::<Quantity>() {
        let printed = quantity.to_string();
        let again: Quantity = printed.parse().expect("what was printed");
        assert_eq!(again.nano(), quantity.nano(), "{text:?} printed as {printed:?}");
        assert_eq!(again.to_string(), printed, "{text:?}");
    }
});
