//! Parts of a pod: what has defaults, is merged by keys or is summed up.

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::{anything, atomic, list_map, metadata, open, schema, with};

/// An amount of a resource.
pub(crate) fn amount() -> Value {
    json!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    })
}

fn amounts() -> Value {
    json!({"type": "object", "additionalProperties": amount()})
}

fn text() -> Value {
    json!({"type": "string"})
}

/// A name of something in the same namespace; the empty one by default.
fn name_of_other() -> Value {
    json!({"type": "string", "default": ""})
}

fn local(more: Value) -> Value {
    let reference = open(json!({"name": name_of_other()}), &[]);
    with(reference, more)
}

fn local_atomic() -> Value {
    local(json!({"x-kubernetes-map-type": "atomic"}))
}

fn texts() -> Value {
    atomic(text())
}

fn int32() -> Value {
    json!({"type": "integer", "format": "int32"})
}

/// What a container needs.
pub(crate) fn resources(_: &mut SchemaGenerator) -> Schema {
    schema(requirements())
}

fn requirements() -> Value {
    let claim = json!({"type": "object", "required": ["name"],
        "properties": {"name": text(), "request": text()}});
    json!({
        "type": "object",
        "properties": {
            "limits": amounts(), "requests": amounts(), "claims": list_map(claim, &["name"]),
        },
    })
}

/// Variables, at most 128.
pub(crate) fn env_list(_: &mut SchemaGenerator) -> Schema {
    schema(with(env(), json!({"maxItems": 128})))
}

/// Variables.
pub(crate) fn env() -> Value {
    let key = |more: Value| {
        let key = json!({"type": "object", "required": ["key"], "x-kubernetes-map-type": "atomic",
            "properties": {"key": text(), "name": name_of_other(), "optional": {"type": "boolean"}}});
        with(key, more)
    };
    let field = json!({"type": "object", "required": ["fieldPath"], "x-kubernetes-map-type": "atomic",
        "properties": {"apiVersion": text(), "fieldPath": text()}});
    let resource = json!({"type": "object", "required": ["resource"], "x-kubernetes-map-type": "atomic",
        "properties": {"containerName": text(), "resource": text(), "divisor": amount()}});
    let file = json!({"type": "object", "required": ["key", "path", "volumeName"], "x-kubernetes-map-type": "atomic",
        "properties": {"key": text(), "path": text(), "volumeName": text(),
            "optional": {"type": "boolean", "default": false}}});
    let from = json!({"type": "object", "properties": {
        "configMapKeyRef": key(json!({})), "secretKeyRef": key(json!({})),
        "fieldRef": field, "resourceFieldRef": resource, "fileKeyRef": file,
    }});
    let variable = json!({"type": "object", "required": ["name"],
        "properties": {"name": text(), "value": text(), "valueFrom": from}});
    list_map(variable, &["name"])
}

fn mount() -> Value {
    let flag = json!({"type": "boolean"});
    json!({"type": "object", "required": ["name", "mountPath"], "properties": {
        "name": text(), "mountPath": text(), "subPath": text(), "subPathExpr": text(), "readOnly": flag,
        "recursiveReadOnly": text(), "mountPropagation": text(),
    }})
}

/// Mounts of a patch: one for each volume.
pub(crate) fn mounts_by_volume() -> Value {
    list_map(mount(), &["name"])
}

/// A container of a template.
fn container() -> Value {
    let port = json!({"type": "object", "required": ["containerPort"], "properties": {
        "containerPort": int32(), "hostPort": int32(), "hostIP": text(), "name": text(),
        "protocol": {"type": "string", "default": "TCP"},
    }});
    let probe = open(
        json!({"grpc": {"type": "object", "required": ["port"],
            "properties": {"port": int32(), "service": {"type": "string", "default": ""}}}}),
        &[],
    );
    let env_from = json!({"type": "object", "properties": {
        "prefix": text(),
        "configMapRef": local_atomic(), "secretRef": local_atomic(),
    }});
    let device = json!({"type": "object", "required": ["devicePath", "name"],
        "properties": {"devicePath": text(), "name": text()}});
    open(
        json!({
            "name": text(), "image": text(), "workingDir": text(), "imagePullPolicy": text(),
            "command": texts(), "args": texts(), "restartPolicy": text(),
            "env": env(), "envFrom": atomic(env_from), "ports": list_map(port, &["containerPort", "protocol"]),
            "resources": requirements(), "volumeMounts": list_map(mount(), &["mountPath"]),
            "volumeDevices": list_map(device, &["devicePath"]),
            "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
        }),
        &["name"],
    )
}

/// Volumes.
pub(crate) fn volumes() -> Value {
    let secret = || json!({"secretRef": local_atomic()});
    let default = |value: Value| {
        let kind = if value.is_boolean() { "boolean" } else { "string" };
        json!({"type": kind, "default": value})
    };
    let projected = open(json!({"configMap": local_atomic(), "secret": local_atomic()}), &[]);
    let rbd = with(
        json!({"keyring": default(json!("/etc/ceph/keyring")), "pool": default(json!("rbd")),
            "user": default(json!("admin"))}),
        secret(),
    );
    let scale_io = with(
        json!({"fsType": default(json!("xfs")), "storageMode": default(json!("ThinProvisioned"))}),
        secret(),
    );
    let volume = open(
        json!({
            "name": text(),
            "azureDisk": open(json!({"fsType": default(json!("ext4")), "readOnly": default(json!(false))}), &["diskName", "diskURI"]),
            "cephfs": open(secret(), &["monitors"]), "cinder": open(secret(), &["volumeID"]),
            "configMap": local_atomic(),
            "csi": open(json!({"nodePublishSecretRef": local_atomic()}), &["driver"]),
            "emptyDir": open(json!({"sizeLimit": amount()}), &[]),
            "flexVolume": open(secret(), &["driver"]),
            "iscsi": open(with(json!({"iscsiInterface": default(json!("default"))}), secret()), &["iqn", "lun", "targetPortal"]),
            "projected": open(json!({"sources": atomic(projected)}), &[]),
            "rbd": open(rbd, &["image", "monitors"]), "scaleIO": open(scale_io, &["gateway", "secretRef", "system"]), "storageos": open(secret(), &[]),
        }),
        &["name"],
    );
    list_map(volume, &["name"])
}

/// Secrets by name.
pub(crate) fn pull_secrets() -> Value {
    list_map(local_atomic(), &["name"])
}

/// Gates.
pub(crate) fn gates() -> Value {
    let gate = json!({"type": "object", "required": ["name"], "properties": {"name": text()}});
    list_map(gate, &["name"])
}

/// A pod to be made.
pub(crate) fn template() -> Value {
    let alias = open(json!({"ip": text()}), &["ip"]);
    let claim = open(json!({"name": text()}), &["name"]);
    let spread = open(
        json!({"topologyKey": text(), "whenUnsatisfiable": text()}),
        &["maxSkew", "topologyKey", "whenUnsatisfiable"],
    );
    let containers = list_map(container(), &["name"]);
    let spec = open(
        json!({
            "containers": containers, "initContainers": containers, "ephemeralContainers": containers,
            "volumes": volumes(), "imagePullSecrets": pull_secrets(), "schedulingGates": gates(),
            "hostAliases": list_map(alias, &["ip"]), "resourceClaims": list_map(claim, &["name"]),
            "topologySpreadConstraints": list_map(spread, &["topologyKey", "whenUnsatisfiable"]),
            "resources": requirements(), "overhead": amounts(),
            "nodeSelector": {"type": "object", "additionalProperties": text(), "x-kubernetes-map-type": "atomic"},
            "tolerations": atomic(anything()), "affinity": anything(), "securityContext": anything(),
            "serviceAccountName": text(), "schedulerName": text(), "priorityClassName": text(),
            "runtimeClassName": text(), "restartPolicy": text(),
            "terminationGracePeriodSeconds": {"type": "integer", "format": "int64"},
        }),
        &["containers"],
    );
    json!({"type": "object", "properties": {"metadata": metadata(), "spec": spec}})
}
