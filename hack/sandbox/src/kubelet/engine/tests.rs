use super::*;
use crate::Sandbox;

async fn engine() -> (Sandbox, Engine, mpsc::UnboundedReceiver<Event>) {
    let clock = Clock::machine();
    let sandbox = Sandbox::builder().clock(clock.clone()).controllers(None).start().await.unwrap();
    let (events, inbox) = mpsc::unbounded_channel();
    let (options, stop) = (KubeletOptions::default(), CancellationToken::new());
    let engine = Engine::new(sandbox.client(), clock, options, Logs::default(), events, &stop);
    (sandbox, engine, inbox)
}

fn exited(container: &str) -> Event {
    Event::Exited { uid: "u".into(), container: container.into(), attempt: 0, code: 3 }
}

#[tokio::test]
async fn an_end_is_kept_for_a_kubelet_that_is_down_but_not_of_a_forgotten_pod() {
    let (_sandbox, mut engine, _inbox) = engine().await;
    engine.hear(exited("forgotten")).await;
    assert!(engine.unseen.is_empty());
    let (uid, container) = ("u".to_owned(), "c".to_owned());
    engine.running.insert((uid.clone(), container.clone()), Started::default());
    engine.hear(exited("c")).await;
    assert_eq!(engine.unseen, HashMap::from([((uid, container), (0, 3))]));
}
