//! Counts panics outside the tests themselves: the server must have none.

use std::sync::{LazyLock, Mutex};

static SEEN: LazyLock<Mutex<Vec<String>>> = LazyLock::new(|| {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map_or_else(String::new, ToString::to_string);
        if !place.contains("tests/api") && !place.contains("proptest") {
            SEEN.lock().unwrap().push(format!("{place}: {info}"));
        }
        before(info);
    }));
    Mutex::new(Vec::new())
});

/// Watches for panics from now on.
pub fn watch() {
    LazyLock::force(&SEEN);
}

/// Fails when anything but a test has panicked.
pub fn assert_none() {
    watch();
    let seen = SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!(seen.is_empty(), "the server panicked: {seen:#?}");
}

#[test]
fn a_panic_of_a_test_itself_is_not_counted() {
    watch();
    let caught = std::panic::catch_unwind(|| panic!("a test's own panic"));
    assert!(caught.is_err());
    assert_none();
}
