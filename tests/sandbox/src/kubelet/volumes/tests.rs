use std::fs;
use std::os::unix::fs::PermissionsExt;

use jiff::Timestamp;
use serde_json::json;

use super::*;

fn pod() -> Value {
    json!({
        "metadata": { "name": "p", "namespace": "ns", "uid": "u-1",
            "labels": { "b": "2", "a": "x\"y" } },
        "spec": {
            "containers": [{ "name": "c", "resources": { "limits": { "cpu": "2" } } }],
            "volumes": [
                { "name": "work", "emptyDir": {} },
                { "name": "cfg", "configMap": { "name": "m", "defaultMode": 416 } },
                { "name": "some", "configMap": { "name": "m",
                    "items": [{ "key": "k", "path": "d/e", "mode": 256 }] } },
                { "name": "maybe", "secret": { "secretName": "absent", "optional": true } },
                { "name": "facts", "downwardAPI": { "items": [
                    { "path": "labels", "fieldRef": { "fieldPath": "metadata.labels" } },
                    { "path": "b", "fieldRef": { "fieldPath": "metadata.labels['b']" } },
                    { "path": "cpu", "resourceFieldRef": { "containerName": "c", "resource": "limits.cpu" } }
                ] } },
                { "name": "token", "projected": { "sources": [
                    { "serviceAccountToken": { "path": "token", "expirationSeconds": 3607 } },
                    { "configMap": { "name": "kube-root-ca.crt",
                        "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
                    { "downwardAPI": { "items": [
                        { "path": "namespace", "fieldRef": { "fieldPath": "metadata.namespace" } }] } }
                ] } },
                { "name": "host", "hostPath": { "path": "/dev" } },
                { "name": "claim", "persistentVolumeClaim": { "claimName": "x" } }
            ]
        }
    })
}

fn fetched() -> Fetched {
    let mut fetched = Fetched::default();
    let map = json!({ "data": { "k": "v" }, "binaryData": { "bin": "AAE=" } });
    fetched.objects.insert(Object::ConfigMap("m".into()), map);
    let ca = json!({ "data": { "ca.crt": "CA" } });
    fetched.objects.insert(Object::ConfigMap("kube-root-ca.crt".into()), ca);
    let request = TokenRequest { audience: String::new(), seconds: 3607 };
    fetched.tokens.insert(request, "secret".into());
    fetched
}

fn files(name: &str) -> Result<Vec<(String, String, u32)>, VolumeError> {
    let volume = plan(&pod()).into_iter().find(|v| v.name == name).unwrap();
    let files = volume.files(&pod(), &fetched())?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ok(files.into_iter().map(|(path, (bytes, mode))| (path, text(bytes), mode)).collect())
}

fn file(path: &str, text: &str, mode: u32) -> (String, String, u32) {
    (path.into(), text.into(), mode)
}

#[test]
fn each_kind_of_volume_holds_what_its_sources_say() {
    assert_eq!(files("cfg").unwrap(), [file("bin", "\0\x01", 0o640), file("k", "v", 0o640)]);
    assert_eq!(files("some").unwrap(), [file("d/e", "v", 0o400)]);
    assert_eq!(files("maybe").unwrap(), []);
    assert_eq!(
        files("facts").unwrap(),
        [
            file("b", "2", 0o644),
            file("cpu", "2", 0o644),
            file("labels", "a=\"x\\\"y\"\nb=\"2\"", 0o644)
        ]
    );
    assert_eq!(
        files("token").unwrap(),
        [
            file("ca.crt", "CA", 0o644),
            file("namespace", "ns", 0o644),
            file("token", "secret", 0o644)
        ]
    );
    assert_eq!(plan(&pod()).len(), 7, "a claim is no business of a simulated node");
}

#[test]
fn directories_are_where_the_kubelet_has_them() {
    let root = Path::new("/r");
    let at: BTreeMap<String, PathBuf> =
        plan(&pod()).iter().map(|v| (v.name.clone(), v.directory(root, "u-1"))).collect();
    let volumes = "/r/var/lib/kubelet/pods/u-1/volumes";
    for (name, below) in [
        ("work", "kubernetes.io~empty-dir/work"),
        ("cfg", "kubernetes.io~configmap/cfg"),
        ("maybe", "kubernetes.io~secret/maybe"),
        ("facts", "kubernetes.io~downward-api/facts"),
        ("token", "kubernetes.io~projected/token"),
    ] {
        assert_eq!(at[name], Path::new(volumes).join(below));
    }
    assert_eq!(at["host"], Path::new("/r/dev"));
}

#[test]
fn what_is_missing_or_leaves_the_volume_is_said() {
    let volume = |spec: Value| {
        let pod = json!({ "metadata": { "uid": "u" }, "spec": { "volumes": [spec] } });
        plan(&pod)[0].files(&pod, &fetched()).unwrap_err().to_string()
    };
    let prefix = "MountVolume.SetUp failed for volume \"v\" : ";
    for (spec, message) in [
        (json!({ "name": "v", "configMap": { "name": "gone" } }), "configmap \"gone\" not found"),
        (json!({ "name": "v", "secret": { "secretName": "gone" } }), "secret \"gone\" not found"),
        (
            json!({ "name": "v", "configMap": { "name": "m", "items": [{ "key": "q", "path": "q" }] } }),
            "references non-existent key: q",
        ),
        (
            json!({ "name": "v", "configMap": { "name": "m", "items": [{ "key": "k", "path": "a/../../b" }] } }),
            "invalid path: a/../../b",
        ),
    ] {
        assert_eq!(volume(spec), format!("{prefix}{message}"));
    }
}

#[test]
fn an_update_is_swapped_in_and_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let at = root.path().join("cfg");
    let now: Timestamp = "2026-01-02T03:04:05.123456Z".parse().unwrap();
    let files = |entries: &[(&str, &str)]| -> Files {
        entries.iter().map(|(p, t)| (p.to_string(), (t.as_bytes().to_vec(), 0o644))).collect()
    };
    let first = files(&[("x", "1"), ("d/y", "2")]);
    assert!(writer::swap(&at, &first, now).unwrap());
    assert_eq!(fs::read_to_string(at.join("x")).unwrap(), "1");
    assert_eq!(fs::read_to_string(at.join("d/y")).unwrap(), "2");
    assert_eq!(fs::read_link(at.join("x")).unwrap(), Path::new("..data/x"));
    let data = fs::read_link(at.join("..data")).unwrap();
    assert_eq!(data, Path::new("..2026_01_02_03_04_05.123456000"));
    assert_eq!(fs::metadata(&at).unwrap().permissions().mode() & 0o777, 0o777);

    assert!(!writer::swap(&at, &first, now).unwrap(), "the same files are no change");
    assert!(writer::swap(&at, &files(&[("x", "3"), ("z", "4")]), now).unwrap());
    assert_eq!(fs::read_to_string(at.join("x")).unwrap(), "3");
    let mut names: Vec<String> = fs::read_dir(&at)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["..2026_01_02_03_04_05.123456001", "..data", "x", "z"]);
}

#[test]
fn an_update_that_fails_midway_leaves_no_directory_behind() {
    let root = tempfile::tempdir().unwrap();
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let files = |path: &str| -> Files {
        [("x", "1"), (path, "2")]
            .into_iter()
            .map(|(p, t)| (p.to_string(), (t.as_bytes().to_vec(), 0o644)))
            .collect()
    };
    assert!(writer::swap(root.path(), &files("z"), now).unwrap());
    for _ in 0..2 {
        // A file cannot be a directory too.
        writer::swap(root.path(), &files("x/y"), now).unwrap_err();
    }
    let mut names: Vec<String> = fs::read_dir(root.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["..2026_01_02_03_04_05.000000000", "..data", "x", "z"]);
    assert_eq!(fs::read_to_string(root.path().join("z")).unwrap(), "2");
}

#[test]
fn a_sub_path_stays_in_its_volume() {
    let volume = Path::new("/r/v");
    for (below, at) in [
        ("", Some("/r/v")),
        ("a/b", Some("/r/v/a/b")),
        ("a..b", Some("/r/v/a..b")),
        ("/etc", None),
        ("..", None),
        ("a/../../b", None),
    ] {
        assert_eq!(sub_path(volume, below), at.map(PathBuf::from), "{below}");
    }
}
