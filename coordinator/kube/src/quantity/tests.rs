//! Tables and laws of quantities.

use super::*;
use proptest::prelude::*;

#[test]
fn quantities_print_as_kubernetes_prints_them() {
    // text, canonical form, nano units
    let table: &[(&str, &str, i128)] = &[
        ("0", "0", 0),
        ("0.0", "0", 0),
        ("-0", "0", 0),
        ("1", "1", NANO),
        ("+1", "1", NANO),
        ("-1", "-1", -NANO),
        ("1500m", "1500m", 1_500_000_000),
        ("1000m", "1", NANO),
        ("0.5", "500m", 500_000_000),
        (".5", "500m", 500_000_000),
        ("5.", "5", 5 * NANO),
        ("0.001", "1m", 1_000_000),
        ("0.0005", "500u", 500_000),
        ("1n", "1n", 1),
        ("0.1n", "1n", 1),
        ("1000", "1k", 1000 * NANO),
        ("1500", "1500", 1500 * NANO),
        ("1k", "1k", 1000 * NANO),
        ("1M", "1M", 1_000_000 * NANO),
        ("1E", "1E", 1_000_000_000_000_000_000 * NANO),
        ("1e3", "1e3", 1000 * NANO),
        ("1E3", "1e3", 1000 * NANO),
        ("1.5e3", "1500", 1500 * NANO),
        ("1e-3", "1e-3", 1_000_000),
        ("2Gi", "2Gi", 2 * 1024 * 1024 * 1024 * NANO),
        ("1024Mi", "1Gi", 1024 * 1024 * 1024 * NANO),
        ("1536Mi", "1536Mi", 1536 * 1024 * 1024 * NANO),
        ("1.5Gi", "1536Mi", 1536 * 1024 * 1024 * NANO),
        ("0.5Ki", "512", 512 * NANO),
        ("1Ki", "1Ki", 1024 * NANO),
        ("1.0001Ki", "1024102400u", 1_024_102_400_000),
        ("8Ei", "9223372036854775807", i64::MAX as i128 * NANO),
        ("100000000000000000000Ei", "9223372036854775807", i64::MAX as i128 * NANO),
    ];
    for (text, canonical, nano) in table {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!(quantity.nano(), *nano, "{text}");
        assert_eq!(quantity.to_string(), *canonical, "{text}");
    }
}

#[test]
fn what_is_no_quantity_is_refused() {
    let table = [
        ("", QuantityError::Form),
        ("a", QuantityError::Form),
        ("-", QuantityError::Form),
        (".", QuantityError::Form),
        ("1.2.3", QuantityError::Form),
        ("1 Gi", QuantityError::Form),
        ("1GiB", QuantityError::Form),
        ("1gi", QuantityError::Form),
        ("1K", QuantityError::Suffix),
        ("1mm", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("1ee3", QuantityError::Suffix),
        ("1e+", QuantityError::Suffix),
    ];
    for (text, error) in table {
        assert_eq!(text.parse::<Quantity>().unwrap_err(), error, "{text:?}");
    }
}

#[test]
fn sums_keep_the_family_of_the_first_unless_it_is_zero() {
    let q = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!((q("1Gi") + q("1G")).to_string(), "2073741824");
    assert_eq!((q("0") + q("1Gi")).to_string(), "1Gi");
    assert_eq!((q("1500m") - q("1")).to_string(), "500m");
    assert_eq!((q("1") - q("1500m")).to_string(), "-500m");
    assert_eq!(q("1"), q("1000m"));
    assert!(q("1Gi") > q("1G"));
    assert_eq!(q("1100m").units(), 2);
    assert_eq!(q("1u").milli(), 1);
    assert_eq!(Quantity::from_milli(250).to_string(), "250m");
    assert_eq!(Quantity::from_units(3).to_string(), "3");
}

#[test]
fn a_quantity_is_multiplied_and_counted() {
    let q = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!((q("500m").times(3) + q("5")).to_string(), "6500m");
    assert_eq!((q("1Gi").times(0) + q("4Gi")).to_string(), "4Gi");
    assert_eq!(["2500m", "2", "1n", "0", "-1500m"].map(|text| q(text).units()), [3, 2, 1, 0, -2]);
    assert_eq!(q("1").or_more(q("1500m")).to_string(), "1500m");
    assert_eq!(q("1").or_more(q("1000m")).to_string(), "1", "the first if they are as much");
    assert_eq!(
        ["8", "2k", "-1"].map(|text| q(text).exact_units()),
        [Some(8), Some(2000), Some(-1)]
    );
    assert_eq!(["1500m", "0.5", "1e30"].map(|text| q(text).exact_units()), [None; 3]);
    assert!(q("0Gi").is_zero() && q("-1").is_negative() && !q("-0").is_negative());
    assert_eq!(q("1e30").units(), i64::MAX);
    assert_eq!(q("-1e30").units(), i64::MIN);
}

#[test]
fn a_quantity_takes_no_more_room_than_its_number() {
    assert_eq!(size_of::<Quantity>(), 16);
}

#[test]
fn a_quantity_is_read_from_json() {
    let read = |value| Quantity::of_json(&value).map(|amount| amount.to_string());
    assert_eq!(read(serde_json::json!("1024Mi")).as_deref(), Some("1Gi"));
    assert_eq!(read(serde_json::json!(1.5)).as_deref(), Some("1500m"));
    assert_eq!(read(serde_json::json!(["1"])), None);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[-+]?[0-9.]{0,40}[a-zA-Z]{0,3}[-+]?[0-9]{0,12}") {
        if let Ok(quantity) = text.parse::<Quantity>() {
            let _ = (quantity.to_string(), quantity + quantity, quantity - quantity, quantity.units());
        }
    }

    #[test]
    fn what_is_printed_reads_back_the_same(number in -1_000_000_000i64..1_000_000_000, fraction in "[0-9]{0,9}", suffix in prop::sample::select(vec!["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "e-3"])) {
        let text = if fraction.is_empty() { format!("{number}{suffix}") } else { format!("{number}.{fraction}{suffix}") };
        let quantity: Quantity = text.parse().unwrap();
        let printed = quantity.to_string();
        let again: Quantity = printed.parse().unwrap();
        prop_assert_eq!(again, quantity, "{} printed {}", text, printed);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn order_is_that_of_the_amounts(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000) {
        let (x, y): (Quantity, Quantity) = (format!("{a}m").parse().unwrap(), format!("{b}m").parse().unwrap());
        prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        prop_assert_eq!(x + y, y + x);
        prop_assert_eq!((x + y) - y, x);
    }
}
