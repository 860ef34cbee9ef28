//! Kinds that a CustomResourceDefinition brings.

use muster_kube::FieldError;
use muster_objects::schema::Schema;
use muster_objects::shape::Shape;
use serde_json::{Value, json};

use super::{Column, Custom, Kind, Scale};

/// The served versions of a CRD as of the store's `revision`. Errors are those of a schema that cannot
/// be compiled. `hosted` says whether the controller of the kind runs here.
pub fn from_crd(crd: &Value, revision: u64, hosted: bool) -> Result<Vec<Kind>, Vec<FieldError>> {
    let versions = crd["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions
        .iter()
        .filter(|v| v["served"] == json!(true))
        .map(|v| from_version(crd, v, revision, hosted))
        .collect()
}

fn from_version(
    crd: &Value,
    version: &Value,
    since: u64,
    hosted: bool,
) -> Result<Kind, Vec<FieldError>> {
    let spec = &crd["spec"];
    let names = &spec["names"];
    let (group, plural, kind) =
        (text(&spec["group"]), text(&names["plural"]), text(&names["kind"]));
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = version.pointer("/schema/openAPIV3Schema").unwrap_or(&open);
    let columns = list(&version["additionalPrinterColumns"]).iter().map(column).collect();
    let selectable = list(&version["selectableFields"])
        .iter()
        .map(|f| text(&f["jsonPath"]).trim_start_matches('.').to_owned())
        .collect();
    let deprecation = (version["deprecated"] == json!(true)).then(|| {
        let said = version["deprecationWarning"].as_str().map(str::to_owned);
        said.unwrap_or_else(|| {
            let best = preferred(crd).filter(|best| *best != text(&version["name"]));
            let instead = best.map(|best| format!("; use {group}/{best} {kind}"));
            let name = text(&version["name"]);
            format!("{group}/{name} {kind} is deprecated{}", instead.unwrap_or_default())
        })
    });
    Ok(Kind {
        version: text(&version["name"]),
        list_kind: or(text(&names["listKind"]), || format!("{kind}List")),
        singular: or(text(&names["singular"]), || kind.to_lowercase()),
        short_names: list(&names["shortNames"]).iter().map(text).collect(),
        categories: list(&names["categories"]).iter().map(text).collect(),
        namespaced: spec["scope"] == json!("Namespaced"),
        resource: format!("{plural}.{group}"),
        status: version.pointer("/subresources/status").is_some(),
        scale: version.pointer("/subresources/scale").map(scale),
        review: false,
        shape: Shape::from_openapi(schema),
        custom: Some(Custom {
            schema: Schema::compile(schema)?,
            openapi: schema.clone(),
            columns,
            selectable,
            since,
            deprecation,
            hosted,
        }),
        group,
        kind,
        plural,
    })
}

/// The best served version that is not deprecated.
fn preferred(crd: &Value) -> Option<String> {
    let fresh = |v: &&Value| v["served"] == json!(true) && v["deprecated"] != json!(true);
    let names = list(&crd["spec"]["versions"]).iter().filter(fresh).map(|v| text(&v["name"]));
    names.max_by_key(|name| version_order(name))
}

fn column(value: &Value) -> Column {
    Column {
        name: text(&value["name"]),
        type_: text(&value["type"]),
        format: text(&value["format"]),
        description: text(&value["description"]),
        priority: value["priority"].as_i64().unwrap_or(0),
        json_path: text(&value["jsonPath"]),
    }
}

fn scale(value: &Value) -> Scale {
    Scale {
        spec_replicas: text(&value["specReplicasPath"]),
        status_replicas: text(&value["statusReplicasPath"]),
        selector: value["labelSelectorPath"].as_str().map(str::to_owned),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

fn or(text: String, otherwise: impl FnOnce() -> String) -> String {
    if text.is_empty() { otherwise() } else { text }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Versions in Kubernetes' order of preference: `v2` over `v1` over `v1beta1` over `v1alpha1` over the rest.
pub(super) fn version_order(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let rest = || (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(tail) = version.strip_prefix('v') else { return rest() };
    let digits = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let Ok(major) = tail[..digits].parse::<u64>() else { return rest() };
    let same = std::cmp::Reverse(String::new());
    let (stage, minor) = match &tail[digits..] {
        "" => return (3, major, 0, same),
        t if t.starts_with("beta") => (2, &t[4..]),
        t if t.starts_with("alpha") => (1, &t[5..]),
        _ => return rest(),
    };
    minor.parse().map_or_else(|_| rest(), |minor| (stage, major, minor, same))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_kubernetes_prefers_them() {
        let mut versions = ["foo10", "v1", "v1alpha1", "v11", "v1beta2", "v2", "v1beta10", "foo1"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_order(version)));
        assert_eq!(
            versions,
            ["v11", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo1", "foo10"]
        );
    }
}
