//! The Secret, the ConfigMap and the webhook configurations, on an API server.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use muster_runtime::writer::Writer;
use muster_serving::certs::{CertReconciler, Names};
use muster_serving::names::{CA_CONFIG_MAP, CERTS_SECRET};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cluster::{Cluster, NAMESPACE, PATH, ago, eventually};
use crate::world::LIMIT;

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

fn marked() -> Value {
    json!({ "muster.dev/rank-group": "g" })
}

#[tokio::test]
async fn a_pod_of_a_rank_group_is_changed_and_no_other_pod_gets_there() {
    let cluster = Cluster::start(Timestamp::now()).await;
    cluster.install().await;
    let count = |outcome| cluster.webhooks.metrics().count(PATH, outcome);
    assert!(cluster.pod("default", "member", marked()).await.unwrap());
    assert_eq!(count("patched"), 1);
    assert!(!cluster.pod("default", "other", json!({ "app": "x" })).await.unwrap());
    assert!(!cluster.pod("kube-system", "system", marked()).await.unwrap());
    assert!(!cluster.pod(NAMESPACE, "ours", marked()).await.unwrap());
    assert_eq!((count("patched"), count("allowed")), (1, 0), "the others never came");
    let refused = cluster.pod("default", "refused", marked()).await.unwrap_err();
    assert!(refused.to_string().contains("not this one"), "{refused}");
    assert_eq!(count("denied"), 1);
    cluster.stop().await;
}

#[tokio::test]
async fn a_certificate_is_renewed_and_the_webhook_goes_on() {
    let cluster = Cluster::start(ago(80)).await;
    cluster.install().await;
    let first = cluster.secret().await.unwrap();
    assert!(cluster.pod("default", "before", marked()).await.unwrap());
    cluster.set_time(ago(15));
    let second = cluster.other_than(&first).await;
    assert_eq!(second.authorities, first.authorities);
    assert_ne!(second.certificate, first.certificate);
    assert!(cluster.pod("default", "after", marked()).await.unwrap());
    cluster.stop().await;
}

#[tokio::test]
async fn an_authority_is_replaced_and_everybody_hears_of_it_before_it_signs() {
    let cluster = Cluster::start(ago(3650 - 365 + 10)).await;
    let first = eventually("made", async || cluster.secret().await).await;
    cluster.set_time(ago(2));
    cluster.install().await;
    let announced = eventually("announced", async || {
        cluster.secret().await.filter(|new| new.authorities.matches("BEGIN").count() == 2)
    })
    .await;
    assert!(announced.authorities.starts_with(&first.authorities));
    eventually("told", async || {
        (cluster.told().await.as_ref() == Some(&announced.authorities)).then_some(())
    })
    .await;
    eventually("trusted", async || {
        (cluster.trusts("muster-coordinator").await == announced.authorities).then_some(())
    })
    .await;
    assert!(cluster.pod("default", "announced", marked()).await.unwrap());

    cluster.set_time(Timestamp::now());
    let adopted = eventually("adopted", async || {
        cluster.secret().await.filter(|new| new.authority_key.matches("BEGIN").count() == 1)
    })
    .await;
    assert!(!adopted.authorities.starts_with(&first.authorities), "the new one signs");
    assert!(adopted.authorities.ends_with(&first.authorities), "the old one is trusted");
    eventually("trusted", async || {
        (cluster.trusts("muster-coordinator").await == adopted.authorities).then_some(())
    })
    .await;
    assert!(cluster.pod("default", "adopted", marked()).await.unwrap());
    cluster.stop().await;
}

#[tokio::test]
async fn a_secret_that_is_deleted_or_spoiled_is_made_anew() {
    let cluster = Cluster::start(Timestamp::now()).await;
    cluster.install().await;
    let first = cluster.secret().await.unwrap();
    let api: Api<Secret> = Api::namespaced(cluster.sandbox.client(), NAMESPACE);
    api.delete(CERTS_SECRET, &DeleteParams::default()).await.unwrap();
    let second = cluster.other_than(&first).await;
    let spoil = Patch::Merge(json!({ "data": { "tls.key": "bm90aGluZw==", "ca.key": null } }));
    api.patch(CERTS_SECRET, &PatchParams::default(), &spoil).await.unwrap();
    let third = eventually("made anew", async || {
        let api = api.get(CERTS_SECRET).await.unwrap();
        match api.data.unwrap().contains_key("ca.key") {
            true => cluster.secret().await.filter(|new| *new != second),
            false => None,
        }
    })
    .await;
    eventually("served", async || {
        let served = cluster.certificates.authorities().borrow().clone().unwrap();
        (*served == *third.authorities).then_some(())
    })
    .await;
    cluster.trusts("muster-coordinator").await;
    assert!(cluster.pod("default", "again", marked()).await.unwrap());
    cluster.stop().await;
}

#[tokio::test]
async fn standbys_serve_what_the_leader_made_and_write_nothing() {
    let cluster = Cluster::start(Timestamp::now()).await;
    let names = || Names::new(["elsewhere.example.org"]);
    let (standby, certificates) = CertReconciler::new(cluster.client.clone(), NAMESPACE, names());
    let stop = CancellationToken::new();
    let follow = tokio::spawn({
        let (standby, stop) = (standby.clone(), stop.clone());
        async move { standby.follow(stop).await }
    });
    tokio::time::timeout(LIMIT, certificates.ready()).await.unwrap();
    let bundle = cluster.secret().await.unwrap();
    assert_eq!(certificates.authorities().borrow().as_deref(), Some(&*bundle.authorities));
    assert_eq!(cluster.secret().await.unwrap(), bundle, "other names are no reason for a standby");
    // One that led before finds that it may not write.
    let fence = cluster.fence.clone();
    fence.end();
    let writer = Writer::new(cluster.client.clone(), fence);
    let lead = standby.lead(writer, stop.clone());
    tokio::time::timeout(LIMIT, lead).await.expect("it returns");
    assert_eq!(cluster.secret().await.unwrap(), bundle);
    stop.cancel();
    follow.await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn whoever_overwrites_what_others_trust_is_corrected() {
    let cluster = Cluster::start(Timestamp::now()).await;
    cluster.install().await;
    let trusted = cluster.secret().await.unwrap().authorities;
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.sandbox.client());
    let change = Patch::Json::<()>(
        serde_json::from_value(json!([
            { "op": "remove", "path": "/webhooks/0/clientConfig/caBundle" },
            { "op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 7 },
        ]))
        .unwrap(),
    );
    mutating.patch("muster-coordinator", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(cluster.trusts("muster-coordinator").await, trusted);
    let found = mutating.get("muster-coordinator").await.unwrap().webhooks.unwrap().remove(0);
    assert_eq!(found.timeout_seconds, Some(7), "the rest is not ours");

    let maps: Api<ConfigMap> = Api::namespaced(cluster.sandbox.client(), NAMESPACE);
    let change = Patch::Merge(json!({ "data": { "ca.crt": "nonsense", "more": "stays" } }));
    maps.patch(CA_CONFIG_MAP, &PatchParams::default(), &change).await.unwrap();
    let told = async || (cluster.told().await.as_deref() == Some(&*trusted)).then_some(());
    eventually("told again", told).await;
    assert_eq!(maps.get(CA_CONFIG_MAP).await.unwrap().data.unwrap()["more"], "stays");
    cluster.stop().await;
}

#[tokio::test]
async fn only_our_own_configurations_that_ask_for_it_are_touched() {
    let cluster = Cluster::start(Timestamp::now()).await;
    cluster.install().await;
    let configuration = |name: &str, ask: &str| {
        let webhook = |name: &str| {
            json!({
                "name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": { "url": format!("https://{}/x", cluster.address) },
            })
        };
        json!({
            "metadata": { "name": name, "annotations": { "muster.dev/inject-ca": ask } },
            "webhooks": [webhook("a.muster.dev"), webhook("b.muster.dev")],
        })
    };
    const NO: &str = "muster-coordinator-dijob";
    const YES: &str = "muster-coordinator-scheduler";
    let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations");
    for (name, ask) in [(NO, "false"), (YES, "true"), ("somebody-elses", "true")] {
        cluster.sandbox.create(&path, &configuration(name, ask)).await.unwrap();
    }
    let api: Api<ValidatingWebhookConfiguration> = Api::all(cluster.sandbox.client());
    let bundles = async |name: &str| -> Vec<bool> {
        let webhooks = api.get(name).await.unwrap().webhooks.unwrap();
        webhooks.into_iter().map(|webhook| webhook.client_config.ca_bundle.is_some()).collect()
    };
    eventually("filled", async || (bundles(YES).await == [true, true]).then_some(())).await;
    assert_eq!(bundles(NO).await, [false, false]);
    // Asked later.
    let ask =
        Patch::Merge(json!({ "metadata": { "annotations": { "muster.dev/inject-ca": "true" } } }));
    api.patch(NO, &PatchParams::default(), &ask).await.unwrap();
    eventually("filled", async || (bundles(NO).await == [true, true]).then_some(())).await;
    // Somebody else's was there all the time.
    assert_eq!(bundles("somebody-elses").await, [false, false]);
    cluster.stop().await;
}

#[tokio::test]
async fn the_coordinator_may_not_change_secrets_or_delete_what_is_not_its_own() {
    let cluster = Cluster::start(Timestamp::now()).await;
    cluster.install().await;
    let forbidden = |error: kube::Error| match error {
        kube::Error::Api(status) => assert_eq!(status.code, 403, "{}", status.message),
        other => panic!("{other}"),
    };
    let secrets = |namespace| Api::<Secret>::namespaced(cluster.client.clone(), namespace);
    // Keys of MPI jobs are looked for in all namespaces, as in the original; nothing there is replaced or deleted.
    let deleted = secrets("default").delete("any", &DeleteParams::default()).await;
    forbidden(deleted.map(drop).unwrap_err());
    let mut other = Secret::default();
    other.metadata.name = Some("another".to_owned());
    let replaced = secrets(NAMESPACE).replace("another", &Default::default(), &other).await;
    forbidden(replaced.map(drop).unwrap_err());
    let deleted = secrets(NAMESPACE).delete(CERTS_SECRET, &DeleteParams::default()).await;
    forbidden(deleted.map(drop).unwrap_err());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(cluster.client.clone());
    let deleted = mutating.delete("muster-coordinator", &DeleteParams::default()).await;
    forbidden(deleted.map(drop).unwrap_err());
    cluster.stop().await;
}

#[tokio::test]
async fn an_api_server_that_fails_for_a_while_delays_and_breaks_nothing() {
    use muster_sandbox::faults::Rule;
    let cluster = Cluster::start(ago(80)).await;
    cluster.install().await;
    let first = cluster.secret().await.unwrap();
    for code in [409, 500, 503] {
        cluster
            .sandbox
            .faults()
            .add(Rule::refusal(code).verb("patch").resource("secrets").times(2));
    }
    cluster.set_time(ago(15));
    let second = cluster.other_than(&first).await;
    assert_eq!(second.authorities, first.authorities);
    assert!(cluster.sandbox.faults().struck() >= 6);
    assert!(cluster.pod("default", "after", marked()).await.unwrap());
    cluster.stop().await;
}
