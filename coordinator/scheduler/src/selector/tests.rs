use super::*;

/// A device: a model, an index, whether it is new, a version, one attribute of another domain; memory and cores.
fn answer(text: &str) -> Result<bool, SelectorError> {
    let attributes = BTreeMap::from([
        ("model".to_owned(), AttributeValue::String("a100-sxm".to_owned())),
        ("index".to_owned(), AttributeValue::Int(3)),
        ("new".to_owned(), AttributeValue::Bool(true)),
        ("driverVersion".to_owned(), AttributeValue::Version("1.10.3".to_owned())),
        ("net.example.com/rail".to_owned(), AttributeValue::Int(7)),
    ]);
    let capacity = BTreeMap::from([
        ("memory".to_owned(), Quantity::amount("80Gi").unwrap()),
        ("gpu.example.com/cores".to_owned(), Quantity::amount("108").unwrap()),
    ]);
    let device = Subject {
        driver: "gpu.example.com",
        attributes: &attributes,
        capacity: &capacity,
        shared: false,
    };
    Selector::parse(text)?.matches(device)
}

#[test]
fn a_device_is_known_by_driver_attributes_and_capacity() {
    for text in [
        "true",
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model == \"a100-sxm\"",
        "device.attributes[\"gpu.example.com\"][\"index\"] == 3",
        "device.attributes['gpu.example.com'].index in [1, 2, 3]",
        "device.attributes['gpu.example.com'].index >= 3 && device.attributes['gpu.example.com'].index < 3.5",
        "device.attributes['gpu.example.com'].new",
        "!(!device.attributes['gpu.example.com'].new)",
        "device.attributes['net.example.com'].rail % 2 == 1",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) > 0",
        "device.capacity['gpu.example.com'].memory == quantity('81920Mi')",
        "device.capacity['gpu.example.com'].cores.isGreaterThan(quantity('100'))",
        "device.capacity['gpu.example.com'].cores.asInteger() == 108",
        "device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('1.9.12'))",
        "device.attributes['gpu.example.com'].driverVersion.compareTo(semver('1.10.3')) == 0",
        "device.attributes['gpu.example.com'].driverVersion.major() == 1",
        "semver('v2', true).isGreaterThan(semver('2.0.0-rc.1'))",
        "device.allowMultipleAllocations == false",
    ] {
        assert_eq!(answer(text), Ok(true), "{text}");
    }
}

#[test]
fn what_may_be_missing_can_be_asked_for() {
    for text in [
        "'model' in device.attributes['gpu.example.com']",
        "!('colour' in device.attributes['gpu.example.com'])",
        "'net.example.com' in device.attributes",
        "has(device.attributes['gpu.example.com'].model) && !has(device.attributes['odd'].model)",
        "device.attributes['gpu.example.com'].?colour.orValue('red') == 'red'",
        "device.attributes[?'gpu.example.com'].index.orValue(0) == 3",
        "device.attributes['gpu.example.com'].?colour.hasValue() || true",
        "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.index == 3 && gpu.model.startsWith('a100'))",
        "device.attributes['gpu.example.com'].exists(name, name == 'model')",
        "device.attributes['gpu.example.com'].all(name, name.size() > 2)",
        "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]",
        "size(device.attributes['gpu.example.com']) == 4",
        "device.attributes['gpu.example.com'].model.lowerAscii().matches('^a[0-9]+-sxm$')",
        "device.attributes['gpu.example.com'].model.split('-')[1] == 'sxm'",
        "device.attributes['gpu.example.com'].index == 3 ? true : false",
        // One side that decides makes up for the other.
        "device.attributes['odd'].x == 1 || device.driver == 'gpu.example.com'",
        "{'a': 1}['a'] == 1 && {'a': 1}.a == 1",
        "cel.bind(x, 1, cel.bind(y, x + 1, x + y == 3))",
    ] {
        assert_eq!(answer(text), Ok(true), "{text}");
    }
}

#[test]
fn kinds_that_differ_are_not_equal_and_have_no_order() {
    assert_eq!(answer("device.attributes['gpu.example.com'].model == 3"), Ok(false));
    assert_eq!(answer("device.attributes['gpu.example.com'].model != 3"), Ok(true));
    let error = answer("device.attributes['gpu.example.com'].model < 3").unwrap_err().to_string();
    assert_eq!(error, "a text and a whole number cannot be compared");
}

#[test]
fn what_has_no_answer_says_why() {
    let told = |text: &str| answer(text).unwrap_err().to_string();
    assert_eq!(
        told("device.attributes['gpu.example.com'].colour == 'red'"),
        "the device has no attribute gpu.example.com/colour"
    );
    assert_eq!(told("device.attributes['odd'].x && true"), "the device has no attribute odd/x");
    assert_eq!(told("1"), "its answer is a whole number, not true or false");
    assert_eq!(told("1 / 0 == 1"), "a number is too large, or divided by zero");
    assert_eq!(
        told("quantity('x') == quantity('1')"),
        "`x` is no quantity: write a number and a unit, such as 1500m, 2Gi or 1e3"
    );
}

#[test]
fn what_cannot_be_read_says_where() {
    let told = |text: &str| Selector::parse(text).unwrap_err().to_string();
    assert_eq!(told("device.driver == "), "at byte 17: a value is expected here");
    assert_eq!(told("devise.driver"), "at byte 0: devise is not known: a selector sees `device`");
    assert_eq!(
        told("device.driver.odd()"),
        "at byte 19: there is no function odd for such arguments"
    );
    assert_eq!(told("'open"), "at byte 0: this text has no end: close its quotes");
    assert_eq!(told("true true"), "at byte 5: an operator or the end is expected here");
    assert!(told(&format!("{}true{}", "(".repeat(60), ")".repeat(60))).contains("levels"));
    assert!(told(&"x".repeat(20_000)).contains("bytes"));
}

#[test]
fn no_selector_takes_for_ever() {
    let list = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let nested =
        format!("[{list}].all(a, [{list}].all(b, [{list}].all(c, [{list}].all(d, true))))");
    assert_eq!(answer(&nested), Err(SelectorError::TooLong));
    // A text that doubles with every step.
    let mut doubling = "x.size() > 0".to_owned();
    for _ in 0..40 {
        doubling = format!("cel.bind(x, x + x, {doubling})");
    }
    assert_eq!(
        answer(&format!("cel.bind(x, 'aaaaaaaaaaaaaaaa', {doubling})")),
        Err(SelectorError::TooLong)
    );
    let long = vec!["device.driver != 'x'"; 300].join(" && ");
    assert_eq!(answer(&long), Ok(true), "conditions in a row are fine");
}

#[test]
fn versions_are_ordered_as_semver_says() {
    let order = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0",
        "1.0.1",
        "1.10.0",
    ];
    let read: Vec<Version> = order.iter().map(|text| Version::parse(text).unwrap()).collect();
    assert!(read.is_sorted_by(|a, b| a < b), "{read:?}");
    for bad in ["1.2", "v1.2.3", "01.2.3", "1.2.3.4", "1.2.3-", ""] {
        assert_eq!(Version::parse(bad), None, "{bad}");
    }
}
