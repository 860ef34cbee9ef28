//! `migrate`.

use std::io::Write;

use muster_proto::annotation::KEY;
use muster_ranktable::{ConfigMap, migrate as from};
use serde_json::{Value as Json, json};

use crate::args::MigrateArgs;
use crate::{Failure, input};

/// The key under which hccl-controller and ascend-operator keep their table.
const TABLE: &str = "hccl.json";

pub(crate) fn migrate(args: &MigrateArgs, out: &mut dyn Write) -> Result<bool, Failure> {
    if let Some(path) = &args.pods {
        let mut patches = Vec::new();
        for pod in input::pods(path)? {
            let Some(ours) = from::annotation(&pod).map_err(Failure::wrong)? else { continue };
            patches.push(json!({"metadata": {"namespace": pod.namespace, "name": pod.name, "annotations": {KEY: ours.write()}}}));
        }
        return print(
            out,
            &json!({"kind": "List", "apiVersion": "v1", "items": patches.into_iter().map(pod).collect::<Vec<_>>()}),
        );
    }
    let Some(path) = &args.table else {
        return Err(Failure::Usage("nothing to migrate".to_owned()));
    };
    let text = input::text(path)?;
    // A ConfigMap that holds the table is as good as the table.
    let held = ConfigMap::read(&text).ok().and_then(|mut map| map.data.remove(TABLE));
    let migrated =
        from::table(held.as_deref().unwrap_or(&text)).map_err(|error| input::wrong(path, error))?;
    if args.annotations {
        let items = migrated.pods.iter().map(|held| {
            pod(json!({"metadata": {"name": held.pod_name, "annotations": {KEY: held.write()}}}))
        });
        return print(
            out,
            &json!({"kind": "List", "apiVersion": "v1", "items": items.collect::<Vec<_>>()}),
        );
    }
    writeln!(out, "{}", migrated.table)?;
    Ok(false)
}

fn pod(mut patch: Json) -> Json {
    patch["apiVersion"] = json!("v1");
    patch["kind"] = json!("Pod");
    patch
}

fn print(out: &mut dyn Write, json: &Json) -> Result<bool, Failure> {
    writeln!(out, "{}", serde_json::to_string_pretty(json).map_err(Failure::wrong)?)?;
    Ok(false)
}
