//! Whole pods, before and after.

use super::*;

/// A pod with everything that makes a difference: user's init containers, a sidecar, volumes, mounts.
const BEFORE: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  generateName: train-
  labels: {muster.dev/rank-group: train}
  annotations: {muster.dev/ranktable-template: t, other~/x: y}
spec:
  restartPolicy: Never
  initContainers:
  - {name: prepare, image: p}
  - {name: proxy, image: x, restartPolicy: Always, volumeMounts: [{name: data, mountPath: /data}]}
  - {name: last, image: l}
  containers:
  - {name: main, image: m, volumeMounts: null}
  - {name: watch, image: w, volumeMounts: [{name: data, mountPath: /etc/ascend}]}
  - {name: plain, image: w}
  volumes:
  - {name: data, emptyDir: {}}
"#;

const AFTER: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  generateName: train-
  labels: {muster.dev/rank-group: train}
  annotations:
    muster.dev/ranktable-template: t
    muster.dev/ranktable-file: ranktable.json
    other~/x: y
spec:
  restartPolicy: Never
  initContainers:
  - {name: prepare, image: p}
  - name: proxy
    image: x
    restartPolicy: Always
    volumeMounts:
    - {name: data, mountPath: /data}
    - {name: ranktable, mountPath: /etc/ascend/ranktable, readOnly: true}
  - {name: last, image: l}
  - WAITER
  containers:
  - name: main
    image: m
    volumeMounts:
    - {name: ranktable, mountPath: /etc/ascend/ranktable, readOnly: true}
  - name: watch
    image: w
    volumeMounts:
    - {name: data, mountPath: /etc/ascend}
    - {name: ranktable, mountPath: /etc/ascend/ranktable, readOnly: true}
  - name: plain
    image: w
    volumeMounts:
    - {name: ranktable, mountPath: /etc/ascend/ranktable, readOnly: true}
  volumes:
  - {name: data, emptyDir: {}}
  - VOLUME
"#;

const AGENT: &str = r#"
name: wait-ranktable
image: muster/agent:1
command: [muster-agent, wait, --file, /etc/ascend/ranktable/ranktable.json]
resources:
  requests: {cpu: 10m, memory: 32Mi}
  limits: {cpu: 10m, memory: 32Mi}
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  runAsUser: 65532
  seccompProfile: {type: RuntimeDefault}
terminationMessagePolicy: FallbackToLogsOnError
volumeMounts:
- {name: ranktable, mountPath: /etc/ascend/ranktable, readOnly: true}
"#;

/// The seed's example: the pod that its controller makes.
const SEED: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: qwen-inference-worker-0
  namespace: default
spec:
  initContainers:
    - name: wait-ranktable
      image: busybox:latest
      command:
        - sh
        - -c
        - |
          echo "Waiting for ranktable to be ready..."
          RANKTABLE_FILE="/etc/ascend/ranktable/ranktable.json"
          while [ ! -f "$RANKTABLE_FILE" ] || [ ! -s "$RANKTABLE_FILE" ]; do
              echo "Ranktable not ready, waiting..."
              sleep 2
          done
          echo "Ranktable is ready!"
          cat "$RANKTABLE_FILE"
      volumeMounts:
        - name: ranktable
          mountPath: /etc/ascend/ranktable
          readOnly: true
  containers:
    - name: inference
      image: mindie-inference:latest
      volumeMounts:
        - name: ranktable
          mountPath: /etc/ascend/ranktable
          readOnly: true
  volumes:
    - name: ranktable
      configMap:
        name: qwen-inference-worker-ranktable
"#;

fn yaml(text: &str) -> Json {
    serde_saphyr::from_str(text).unwrap()
}

fn after(waiter: Json, volume: Json) -> Json {
    let mut after = yaml(AFTER);
    after["spec"]["initContainers"][3] = waiter;
    after["spec"]["volumes"][1] = volume;
    after
}

#[test]
fn the_agent_writes_into_an_empty_dir() {
    let before = yaml(BEFORE);
    let outcome = inject(&before, &by(Delivery::Agent)).unwrap();
    let expected = after(yaml(AGENT), json!({"name": "ranktable", "emptyDir": {}}));
    assert_eq!(applied(&before, &outcome), expected);
    assert_eq!(outcome.warnings, [] as [String; 0]);
}

#[test]
fn a_config_map_is_mounted_as_the_seed_does() {
    let before = yaml(BEFORE);
    let outcome = inject(&before, &by(Delivery::ConfigMap)).unwrap();
    let waiter = yaml(SEED)["spec"]["initContainers"][0].clone();
    let volume = json!({"name": "ranktable", "configMap": {"name": "train-ranktable"}});
    assert_eq!(applied(&before, &outcome), after(waiter, volume));
}

#[test]
fn the_pod_chooses_its_delivery() {
    let mut before = yaml(BEFORE);
    for (word, default) in [("agent", Delivery::ConfigMap), ("configmap", Delivery::Agent)] {
        before["metadata"]["annotations"][RANKTABLE_DELIVERY] = json!(word);
        let done = applied(&before, &inject(&before, &by(default)).unwrap());
        let kind = done["spec"]["volumes"][1].as_object().unwrap().keys().next().unwrap();
        assert_eq!(kind, if word == "agent" { "emptyDir" } else { "configMap" });
    }
}

#[test]
fn the_seeds_example_comes_out_exactly() {
    let seed = yaml(SEED);
    let marks = |pod: &mut Json| {
        pod["metadata"]["labels"] = json!({RANK_GROUP: "qwen-inference-worker"});
        pod["metadata"]["annotations"] =
            json!({"kthena.io/ranktable-template": "ascend-ranktable-template-mindie-role"});
    };
    let mut before = seed.clone();
    marks(&mut before);
    before["spec"] =
        json!({"containers": [{"name": "inference", "image": "mindie-inference:latest"}]});
    let mut expected = seed;
    marks(&mut expected);
    expected["metadata"]["annotations"][RANKTABLE_FILE] = json!("ranktable.json");
    let outcome = inject(&before, &by(Delivery::ConfigMap)).unwrap();
    assert_eq!(applied(&before, &outcome), expected);
    // The example as it stands, mounts and all, lacks the annotation alone.
    let mut before = expected.clone();
    before["metadata"]["annotations"].as_object_mut().unwrap().remove(RANKTABLE_FILE);
    let outcome = inject(&before, &by(Delivery::ConfigMap)).unwrap();
    let path = "/metadata/annotations/muster.dev~1ranktable-file";
    assert_eq!(outcome.patch, [json!({"op": "add", "path": path, "value": "ranktable.json"})]);
}
