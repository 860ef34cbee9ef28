use super::*;
use crate::Sandbox;

async fn engine() -> (Sandbox, Engine, mpsc::UnboundedReceiver<Event>) {
    let clock = Clock::machine();
    let sandbox = Sandbox::builder().clock(clock.clone()).controllers(None).start().await.unwrap();
    let (events, inbox) = mpsc::unbounded_channel();
    let (options, stop) = (KubeletOptions::default(), CancellationToken::new());
    let engine = Engine::new(
        sandbox.client(),
        clock,
        options,
        Logs::default(),
        events,
        &stop,
        &TaskTracker::new(),
    );
    (sandbox, engine, inbox)
}

fn exited(container: &str) -> Event {
    Event::Exited { uid: "u".into(), container: container.into(), attempt: 0, code: 3 }
}

#[tokio::test]
async fn an_end_is_kept_for_a_kubelet_that_is_down_but_not_of_a_forgotten_pod() {
    let (_sandbox, mut engine, _inbox) = engine().await;
    engine.handle(exited("forgotten")).await;
    assert!(engine.unseen.is_empty());
    let (uid, container) = ("u".to_owned(), "c".to_owned());
    engine.running.insert((uid.clone(), container.clone()), Started::default());
    engine.handle(exited("c")).await;
    assert_eq!(engine.unseen, HashMap::from([((uid, container), (0, 3))]));
}

#[tokio::test]
async fn events_of_an_earlier_kubelet_change_nothing() {
    let (_sandbox, mut engine, _inbox) = engine().await;
    let spec = NodeSpec::bare("n", crate::hardware::Profile::Ascend910b8, 0);
    engine.add_node(Arc::new(spec)).await.unwrap();
    let pod = serde_json::json!({ "metadata": { "name": "a", "namespace": "default", "uid": "u" },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] } });
    engine.handle(Event::Applied(pod.clone())).await;
    let old = engine.pods["u"].epoch;
    engine.halt("n").await;
    engine.boot("n").await.unwrap();
    engine.handle(Event::Applied(pod)).await;
    let result = Err(Blocked { reason: "r".into(), message: "m".into() });
    engine.handle(Event::Wrote { uid: "u".into(), epoch: old, outcome: PostOutcome::Gone }).await;
    engine.handle(Event::Prepared { uid: "u".into(), epoch: old, result }).await;
    let pod = &engine.pods["u"];
    assert!(pod.preparing && pod.sync_at.is_none());
    let new = pod.epoch;
    engine.handle(Event::Wrote { uid: "u".into(), epoch: new, outcome: PostOutcome::Gone }).await;
    assert!(engine.pods.is_empty());
}
