use kube::api::PostParams;
use muster_objects::status::{Resource, Status};

use super::*;
use crate::Sandbox;
use crate::faults::{Fault, Rule};

async fn sandbox() -> Sandbox {
    let sandbox = Sandbox::builder().controllers(None).start().await.unwrap();
    let accounts = Api::namespaced(sandbox.client(), "default");
    let account: k8s_openapi::api::core::v1::ServiceAccount =
        serde_json::from_value(json!({ "metadata": { "name": "default" } })).unwrap();
    // It may be there already.
    let _made = accounts.create(&PostParams::default(), &account).await;
    sandbox
}

async fn create(sandbox: &Sandbox, name: &str) -> Value {
    let pod = json!({ "metadata": { "name": name }, "spec": { "nodeName": "n",
        "containers": [{ "name": "c", "image": "i" }] } });
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), "default");
    let pod = serde_json::from_value(pod).unwrap();
    serde_json::to_value(pods.create(&PostParams::default(), &pod).await.unwrap()).unwrap()
}

async fn phase(sandbox: &Sandbox, name: &str) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), "default");
    pods.get(name).await.unwrap().status.and_then(|status| status.phase)
}

#[tokio::test]
async fn a_conflict_that_speaks_of_uids_is_tried_again_while_the_pod_is_the_same() {
    let sandbox = sandbox().await;
    let pod = create(&sandbox, "druid-0").await;
    let conflict = Status::stale(Resource { group: "", plural: "pods" }, "druid-0");
    sandbox.faults().add(Rule::new(Fault::Answer(conflict)).verb("patch").times(1));
    let written =
        status(sandbox.client(), &Semaphore::new(1), &pod, &json!({ "phase": "Running" })).await;
    assert_eq!((written, sandbox.faults().struck()), (PostOutcome::Done, 1));
    assert_eq!(phase(&sandbox, "druid-0").await.as_deref(), Some("Running"));
}

#[tokio::test]
async fn another_pod_of_that_name_is_left_alone() {
    let sandbox = sandbox().await;
    let first = create(&sandbox, "a").await;
    assert_eq!(delete(sandbox.client(), &Semaphore::new(1), &first).await, PostOutcome::Done);
    assert_eq!(delete(sandbox.client(), &Semaphore::new(1), &first).await, PostOutcome::Gone);
    let second = create(&sandbox, "a").await;
    assert_ne!(meta::uid(&first), meta::uid(&second));
    let running = json!({ "phase": "Running" });
    assert_eq!(
        status(sandbox.client(), &Semaphore::new(1), &first, &running).await,
        PostOutcome::Gone
    );
    assert_eq!(delete(sandbox.client(), &Semaphore::new(1), &first).await, PostOutcome::Gone);
    assert_eq!(phase(&sandbox, "a").await.as_deref(), Some("Pending"));
}

#[tokio::test]
async fn a_write_that_is_tried_again_leaves_the_turn_to_others_meanwhile() {
    let sandbox = sandbox().await;
    let pod = create(&sandbox, "a").await;
    sandbox.faults().add(Rule::refusal(503).verb("patch"));
    let (requests, running) = (Semaphore::new(1), json!({ "phase": "Running" }));
    let stuck = status(sandbox.client(), &requests, &pod, &running);
    let other = async {
        while sandbox.faults().struck() < 2 {
            tokio::task::yield_now().await;
        }
        let turn = requests.acquire().await.unwrap();
        sandbox.faults().clear();
        drop(turn);
    };
    let both = async { tokio::join!(stuck, other) };
    let (written, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert_eq!(written, PostOutcome::Done);
}
