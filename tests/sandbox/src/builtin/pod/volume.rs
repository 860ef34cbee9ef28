//! Volumes of a pod.

use muster_kube::FieldError;
use serde_json::{Value, json};

use super::super::amount;
use super::super::field::{entries, list, number, text};
use super::super::metadata::{complain, duplicate, forbidden, invalid, required};
use super::super::names;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// Checks all volumes; gives the names of those that are sound.
pub(super) fn validate_all(spec: &Value, field: &str, errors: &mut Vec<FieldError>) -> Vec<String> {
    let mut sound: Vec<String> = Vec::new();
    for (place, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let field = format!("{field}[{place}]");
        let mut wrong = Vec::new();
        source(volume, &field, &mut wrong);
        let name = text(volume, &["name"]);
        let name_field = format!("{field}.name");
        if name.is_empty() {
            wrong.push(required(name_field.as_str(), ""));
        } else {
            complain(&mut wrong, &name_field, name, names::label(name));
        }
        if sound.iter().any(|known| known == name) {
            wrong.push(duplicate(&name_field, &json!(name)));
        }
        if wrong.is_empty() {
            sound.push(name.to_owned());
        } else {
            errors.append(&mut wrong);
        }
    }
    sound
}

/// Kinds of sources in the order in which the second one is complained about.
const ORDER: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "azureFile",
    "configMap",
    "azureDisk",
    "storageOS",
    "portworxVolume",
    "scaleIO",
    "vsphereVolume",
    "photonPersistentDisk",
    "projected",
    "csi",
    "ephemeral",
    "image",
];

fn source(volume: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let mut sources: Vec<&str> =
        entries(volume, &[]).map(|(key, _)| key.as_str()).filter(|key| *key != "name").collect();
    sources.sort_by_key(|key| ORDER.iter().position(|known| known == key));
    for (place, kind) in sources.iter().enumerate() {
        let field = format!("{field}.{kind}");
        if place > 0 {
            errors.push(forbidden(field, "may not specify more than 1 volume type"));
        } else {
            one_source(kind, &volume[*kind], &field, errors);
        }
    }
    if sources.is_empty() {
        errors.push(required(field, "must specify a volume type"));
    }
}

fn one_source(kind: &str, source: &Value, field: &str, errors: &mut Vec<FieldError>) {
    match kind {
        "emptyDir" if amount::nanos(text(source, &["sizeLimit"])) < 0 => {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.push(forbidden(format!("{field}.sizeLimit"), detail));
        }
        "hostPath" => host_path(source, field, errors),
        "secret" => {
            needs(source, "secretName", field, errors);
            mode(source, "defaultMode", field, errors);
            key_paths(source, field, errors);
        }
        "configMap" => {
            needs(source, "name", field, errors);
            mode(source, "defaultMode", field, errors);
            key_paths(source, field, errors);
        }
        "downwardAPI" => mode(source, "defaultMode", field, errors),
        "persistentVolumeClaim" => needs(source, "claimName", field, errors),
        "csi" => needs(source, "driver", field, errors),
        "nfs" => {
            needs(source, "server", field, errors);
            needs(source, "path", field, errors);
            let path = text(source, &["path"]);
            if !path.is_empty() && !path.starts_with('/') {
                let detail = "must be an absolute path";
                errors.push(invalid(&format!("{field}.path"), &json!(path), detail));
            }
        }
        "projected" => projected(source, field, errors),
        _ => {}
    }
}

fn needs(source: &Value, key: &str, field: &str, errors: &mut Vec<FieldError>) {
    if text(source, &[key]).is_empty() {
        errors.push(required(format!("{field}.{key}"), ""));
    }
}

fn mode(source: &Value, key: &str, field: &str, errors: &mut Vec<FieldError>) {
    if let Some(mode) = number(source, &[key]).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(invalid(&format!("{field}.{key}"), &json!(mode), MODE));
    }
}

fn key_paths(source: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (place, item) in list(source, &["items"]).iter().enumerate() {
        let field = format!("{field}.items[{place}]");
        needs(item, "key", &field, errors);
        needs(item, "path", &field, errors);
        local_path(text(item, &["path"]), &format!("{field}.path"), errors);
        mode(item, "mode", &field, errors);
    }
}

/// A path below a volume.
pub(super) fn local_path(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    descending_path(path, field, errors);
    if path.starts_with("..") && !path.starts_with("../") {
        errors.push(invalid(field, &json!(path), "must not start with '..'"));
    }
}

/// A relative path that does not climb.
pub(super) fn descending_path(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if path.starts_with('/') {
        errors.push(invalid(field, &json!(path), "must be a relative path"));
    }
    no_backsteps(path, field, errors);
}

fn no_backsteps(path: &str, field: &str, errors: &mut Vec<FieldError>) {
    if path.split('/').any(|part| part == "..") {
        errors.push(invalid(field, &json!(path), "must not contain '..'"));
    }
}

fn host_path(source: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let path = text(source, &["path"]);
    if path.is_empty() {
        errors.push(required(format!("{field}.path"), ""));
        return;
    }
    no_backsteps(path, &format!("{field}.path"), errors);
    let known = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let kind = text(source, &["type"]);
    if !known.contains(&kind) {
        let field = format!("{field}.type");
        errors.push(super::super::metadata::not_supported(&field, kind, &known));
    }
}

fn projected(source: &Value, field: &str, errors: &mut Vec<FieldError>) {
    mode(source, "defaultMode", field, errors);
    for (place, part) in list(source, &["sources"]).iter().enumerate() {
        let at = format!("{field}.sources[{place}]");
        for kind in ["secret", "configMap"] {
            if let Some(inner) = part.get(kind) {
                let at = format!("{at}.{kind}");
                needs(inner, "name", &at, errors);
                key_paths(inner, &at, errors);
            }
        }
        if let Some(token) = part.get("serviceAccountToken") {
            let seconds = number(token, &["expirationSeconds"]).unwrap_or_default();
            let at = format!("{at}.serviceAccountToken.expirationSeconds");
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                errors.push(invalid(&at, &json!(seconds), detail));
            }
            if seconds > 1 << 32 {
                let detail = "may not specify a duration larger than 2^32 seconds";
                errors.push(invalid(&at, &json!(seconds), detail));
            }
            needs(token, "path", field, errors);
        }
    }
}
