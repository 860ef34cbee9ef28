//! Manifests as `kubectl apply --server-side` applies them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::world::{Seen, until};

/// How long a kind may take to be served, and a refusal that passes to pass.
const PATIENCE: Duration = Duration::from_secs(30);

/// The manifests of a file, or of all files of a directory by name.
pub fn read(path: &Path) -> anyhow::Result<Vec<(PathBuf, Value)>> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
        files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.retain(|file| {
            file.extension()
                .is_some_and(|kind| ["yaml", "yml", "json"].iter().any(|one| kind == *one))
        });
        files.sort();
    }
    let mut found = Vec::new();
    for file in files {
        let shown = || file.display().to_string();
        let text = std::fs::read_to_string(&file).with_context(shown)?;
        let documents = serde_saphyr::from_multiple::<Value>(&text).with_context(shown)?;
        let documents = documents.into_iter().filter(|document| !document.is_null());
        found.extend(documents.map(|document| (file.clone(), document)));
    }
    Ok(found)
}

/// Applies all manifests of a file or directory, but those of files with these names.
pub async fn apply(client: &Client, path: &Path, skipped: &[String]) -> anyhow::Result<()> {
    for (file, document) in read(path)? {
        let name = file.file_name().unwrap_or_default();
        if skipped.iter().all(|skip| name != skip.as_str()) {
            object(client, document).await.with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

/// Applies one object, its status too where it has one. A kind that was defined just now is waited for.
pub async fn object(client: &Client, document: Value) -> anyhow::Result<()> {
    let types: TypeMeta = serde_json::from_value(document.clone())
        .context("the object has no apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    let status = document.get("status").cloned();
    let parsed: DynamicObject = serde_json::from_value(document.clone())?;
    let name = parsed.name_any();
    let what = format!("{} {name}", kind.kind);
    let params = PatchParams::apply("muster-world").force();
    until(&what, PATIENCE, async || {
        let (resource, about) = discovery::pinned_kind(client, &kind).await?;
        let api: Api<DynamicObject> = match about.scope {
            Scope::Namespaced => {
                let namespace = parsed.namespace().unwrap_or_else(|| "default".to_owned());
                Api::namespaced_with(client.clone(), &namespace, &resource)
            }
            Scope::Cluster => Api::all_with(client.clone(), &resource),
        };
        let applied = api.patch(&name, &params, &Patch::Apply(&document)).await;
        match applied {
            Err(kube::Error::Api(refused)) if !refused.code_passes() => {
                return Ok(Seen::Yes(Err(anyhow::Error::new(kube::Error::Api(refused)))));
            }
            applied => applied?,
        };
        if status.is_some() && has_status(&about) {
            api.patch_status(&name, &params, &Patch::Apply(&document)).await?;
        }
        Ok(Seen::Yes(Ok(())))
    })
    .await?
    .with_context(|| format!("applying {what}"))
}

fn has_status(about: &kube::discovery::ApiCapabilities) -> bool {
    about
        .subresources
        .iter()
        .any(|(sub, _)| sub.plural.ends_with("/status") || sub.plural == "status")
}

/// Whether a refusal may be gone the next time.
trait Passes {
    fn code_passes(&self) -> bool;
}

impl Passes for kube::core::Status {
    fn code_passes(&self) -> bool {
        self.code == 404 || self.code == 409 || self.code == 429 || self.code >= 500
    }
}
