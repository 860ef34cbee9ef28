//! What must hold of everything that is read from outside on the way to a rank table, whatever the input.
//!
//! ```text
//!   targets/*.rs (libFuzzer) ────┐
//!                                ├──▶ a law: bytes in, asserts inside; says whether anything was read
//!   ../tests/laws.rs (proptest) ─┘
//! ```
//!
//! Both sides use the same laws, so that whatever the fuzzer finds becomes a test by putting its file into `corpus/`.

use std::sync::LazyLock;

use muster_proto::annotation::PodRanktable;
use muster_ranktable::{
    ConfigMap, Facts, Numbering, Order, Pod, RenderError, Request, Table, TableTemplate, migrate,
};

/// Bytes in; whether something was found in them.
pub type Law = fn(&[u8]) -> bool;

/// Every law, by the name of its target.
pub const LAWS: [(&str, Law); 5] = [
    ("annotation_to_table", annotation_to_table),
    ("check", check),
    ("migrate", migrate),
    ("numbering", numbering),
    ("template_config_map", template_config_map),
];

/// A template with the standard parser, and one with the extended parser.
static TEMPLATES: LazyLock<[TableTemplate; 2]> = LazyLock::new(|| {
    let read = |text| ConfigMap::read(text).expect("it is shipped");
    let folder = [
        include_str!("../../../deploy/templates/ascend-ranktable-template-mindie-role.yaml"),
        include_str!("../../../deploy/templates/ascend-ranktable-template-hccl-1-2.yaml"),
    ];
    let parser =
        read(include_str!("../../../deploy/templates/ascend-pod-ranktable-parser-extended.yaml"));
    let [standard, extended] = folder.map(read);
    [
        TableTemplate::read(&standard, None).expect("it is shipped"),
        TableTemplate::read(&extended, Some(&parser)).expect("it is shipped"),
    ]
});

/// Every line is the annotation of a pod. Whatever they say, there is a right table or an error that says why.
pub fn annotation_to_table(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let key = muster_proto::annotation::KEY;
    let pod = |(index, line): (usize, &str)| Pod {
        name: format!("w-{index}"),
        annotations: [(key.to_owned(), line.to_owned())].into(),
        ..Pod::default()
    };
    let mut pods: Vec<Pod> = text.lines().enumerate().map(pod).collect();
    let mut any = false;
    for template in &*TEMPLATES {
        for order in [Order::Lexical, Order::Numeric, Order::Pod, Order::Topology] {
            let request = Request { changed: "now", order: Some(order), ..Request::default() };
            let rendered = match template.render(&pods, &request) {
                Ok(rendered) => rendered,
                Err(error) => {
                    assert!(!matches!(error, RenderError::NotJson { .. }), "{error}");
                    assert!(!error.reason().is_empty() && !error.to_string().is_empty());
                    continue;
                }
            };
            any = true;
            assert!(serde_json::from_str::<serde_json::Value>(&rendered.text).is_ok());
            each_rank_once(&rendered.table);
            let numbering = rendered.table.numbering();
            assert_eq!(numbering.len(), rendered.table.total_devices);
            assert_eq!(Numbering::read(&numbering.write()), Ok(numbering));
            pods.reverse();
            let again =
                template.render(&pods, &request).expect("the order of pods does not matter");
            assert_eq!(again.text, rendered.text);
            pods.reverse();
        }
    }
    any
}

fn each_rank_once(table: &Table) {
    let devices = table.servers.iter().flat_map(|server| &server.devices);
    let mut ranks: Vec<usize> = devices
        .map(|device| device.rank_id.as_str().parse().expect("a rank is a number"))
        .collect();
    ranks.sort_unstable();
    assert!(ranks.into_iter().eq(0..table.total_devices));
}

/// Any table gets a bounded report that says what is wrong and what to do; what is no JSON does not pass.
pub fn check(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let findings = muster_ranktable::check(text, &Facts::default());
    assert!(findings.len() <= 1000);
    for finding in &findings {
        assert!(
            !finding.code.is_empty() && !finding.message.is_empty() && !finding.remedy.is_empty()
        );
    }
    let json = serde_json::from_str::<serde_json::Value>(text).is_ok();
    assert!(json || !findings.is_empty());
    json
}

/// What is taken over can be written and read, and its ranks stay.
pub fn migrate(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut any = false;
    match migrate::table(text) {
        Ok(migrated) => {
            any = true;
            assert!(serde_json::from_str::<serde_json::Value>(&migrated.table).is_ok());
            assert_eq!(Numbering::read(&migrated.ranks.write()), Ok(migrated.ranks));
        }
        Err(error) => assert!(!error.reason().is_empty() && !error.to_string().is_empty()),
    }
    let annotations = [(migrate::ANNOTATIONS[0].to_owned(), text.to_owned())].into();
    let pod = Pod { name: "w-0".into(), annotations, ..Pod::default() };
    match migrate::annotation(&pod) {
        Ok(migrated) => {
            any = true;
            let migrated = migrated.expect("the pod has an annotation");
            assert_eq!(PodRanktable::parse(&migrated.write()), Ok(migrated));
        }
        Err(error) => assert!(!error.reason().is_empty() && !error.to_string().is_empty()),
    }
    any
}

/// What was read is written as one text, which is read the same.
pub fn numbering(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match Numbering::read(text) {
        Ok(read) => {
            assert!(read.len() <= 1 << 20);
            let written = read.write();
            let again = Numbering::read(&written).expect("what was written is read");
            assert_eq!(again.write(), written);
            assert_eq!(again, read);
            true
        }
        Err(error) => {
            assert!(!error.reason().is_empty() && !error.to_string().is_empty());
            false
        }
    }
}

/// A template that is read keeps its file where its mount is. It is not run here: templates have targets of their own.
pub fn template_config_map(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(config_map) = ConfigMap::read(text) else { return false };
    assert!(!config_map.parser_name().is_empty());
    match TableTemplate::read(&config_map, None) {
        Ok(template) => {
            assert!(template.mount_path.starts_with('/'));
            assert!(template.mount_path.split('/').all(|part| part != ".."));
            assert!(!template.filename.is_empty() && !template.filename.contains('/'));
            true
        }
        Err(error) => {
            assert!(!error.reason().is_empty() && !error.to_string().is_empty());
            false
        }
    }
}
