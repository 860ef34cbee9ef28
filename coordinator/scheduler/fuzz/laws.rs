//! What must hold of everything that is read, whatever the input.
//!
//! ```text
//!   targets/*.rs (libFuzzer) ────────────┐
//!                                        ├──▶ a law: bytes in, asserts inside; says whether anything was read
//!   ../tests/behaviour/laws.rs (proptest)┘
//! ```

use muster_kube::Quantity;
use muster_kube::duration;
use muster_scheduler::config::{self, Config};
use muster_scheduler::decide;
use muster_scheduler::input::{AttributeValue, Limits, load};
use muster_scheduler::selector::{Selector, Subject};
use muster_scheduler::snapshot::build;

/// What is read is not negative, is the same when it is written and read again, and adds up.
pub fn quantity(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    if let Ok(span) = duration::parse(text) {
        assert_eq!(duration::parse_long(text), Ok(span), "{text}");
    }
    match Quantity::amount(text) {
        Ok(amount) => {
            assert!(amount.units() >= 0 && amount.milli() >= amount.units(), "{text}");
            assert_eq!(Quantity::amount(&amount.to_string()), Ok(amount), "{text}");
            assert_eq!(amount.checked_add(Quantity::default()), Some(amount), "{text}");
            assert_eq!(amount.is_zero(), amount.milli() == 0, "{text}");
            true
        }
        Err(error) => {
            assert!(error.to_string().contains(": write "), "{error}");
            false
        }
    }
}

/// What is read names known actions and plugins only; what is refused says why.
pub fn configuration(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let read = config::parse(text, &["mine"]);
    for read in [&read, &config::shard(text, &["mine"])] {
        match read {
            Ok(config) => known(config),
            Err(error) => assert!(error.to_string().len() > 10, "{error}"),
        }
    }
    let _ = config::Params::parse(text);
    read.is_ok()
}

fn known(config: &Config) {
    for plugin in &config.plugins {
        let name = plugin.name.as_str();
        assert!(config::PLUGINS.contains(&name) || name == "mine", "{name}");
        assert_eq!(config.plugins.iter().filter(|other| other.name == name).count(), 1, "{name}");
    }
    for note in &config.notes {
        assert!(!note.problem.is_empty() && !note.remedy.is_empty(), "{note}");
    }
}

/// What is read ends with the same answer each time, or says why it has none.
pub fn selector(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let selector = match Selector::parse(text) {
        Ok(selector) => selector,
        Err(error) => {
            assert!(error.to_string().len() > 10, "{error}");
            return false;
        }
    };
    let attributes = [
        ("index", AttributeValue::Int(1)),
        ("model", AttributeValue::String("a100".to_owned())),
        ("version", AttributeValue::Version("1.2.3".to_owned())),
        ("odd", AttributeValue::Version("1.2".to_owned())),
        ("net.example.com/new", AttributeValue::Bool(true)),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into();
    let capacity = [("memory".to_owned(), Quantity::from_units(80))].into();
    let device = Subject {
        driver: "gpu.example.com",
        attributes: &attributes,
        capacity: &capacity,
        shared: false,
    };
    let answer = selector.matches(device);
    assert_eq!(answer, selector.matches(device), "{text}");
    if let Err(error) = answer {
        assert!(!error.to_string().is_empty(), "{text}");
    }
    true
}

/// What is read has names, each once; what is set aside has a field, a problem and a remedy; and whatever was read, a
/// cycle ends, decides about pods that are there, and decides the same again.
pub fn snapshot(bytes: &[u8]) -> bool {
    let limits = Limits { bytes: 1 << 20, objects: 1000 };
    let Ok(document) = load(bytes, limits) else { return false };
    let input = &document.input;
    for bad in &input.set_aside {
        assert!(!bad.object.is_empty() && !bad.field.is_empty(), "{bad}");
        assert!(!bad.problem.is_empty() && !bad.remedy.is_empty(), "{bad}");
    }
    let mut names: Vec<_> = input.pods.iter().map(|pod| pod.key()).collect();
    assert!(names.iter().all(|name| !name.starts_with('/') && !name.ends_with('/')));
    names.sort_unstable();
    assert!(names.is_sorted_by(|a, b| a < b), "a name twice");
    for pod in &input.pods {
        let _ = pod.group();
        assert!(pod.metadata.labels.iter().is_sorted());
    }
    let Ok(config) = Config::of_document(&document, &[]) else { return true };
    let now = input.now.unwrap_or_default();
    let cluster = build(input, &config.params, now);
    let decisions = decide(&cluster, &config, now);
    assert_eq!(decisions, decide(&cluster, &config, now), "the same cluster, the same decisions");
    let mut given = Vec::new();
    for decision in &decisions.decisions {
        let claims = decision.claims.iter().filter_map(|claim| claim.allocation.as_ref());
        let extended = decision.extended_claim.iter().map(|claim| &claim.allocation);
        for device in claims.chain(extended).flat_map(|allocation| &allocation.devices.results) {
            if device.admin_access != Some(true) {
                given.push((&decision.pod, &device.driver, &device.pool, &device.device));
            }
        }
        assert!(names.binary_search(&decision.pod).is_ok(), "{} is no pod", decision.pod);
    }
    let count = given.len();
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), count, "a device twice for one pod");
    true
}
