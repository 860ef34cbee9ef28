use super::*;
use crate::template::ConfigMap;
use muster_kube::rank_group::{RANK_GROUP, RANKTABLE_CONTAINERS, RANKTABLE_DELIVERY};

mod goldens;
mod laws;

fn template(mount_path: &str, filename: &str) -> Arc<TableTemplate> {
    let data = [("ranktable-template", "{}"), ("mount-path", mount_path), ("filename", filename)];
    let data = data.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let template = ConfigMap { name: "t".into(), data, ..ConfigMap::default() };
    Arc::new(TableTemplate::read(&template, None).unwrap())
}

fn inject(pod: &Json, settings: &Injection) -> Result<Outcome, InjectError> {
    let found = |name: &str| match name {
        "absent" => Err(TemplateProblem::Missing { namespace: "k".into(), name: name.into() }),
        _ => Ok(template("/etc/ascend/ranktable", "ranktable.json")),
    };
    mutate(pod, "n", found, settings)
}

/// The pod as the API server would create it.
fn applied(pod: &Json, outcome: &Outcome) -> Json {
    let mut pod = pod.clone();
    let patch: json_patch::Patch =
        serde_json::from_value(Json::Array(outcome.patch.clone())).unwrap();
    json_patch::patch(&mut pod, &patch).unwrap();
    pod
}

fn by(delivery: Delivery) -> Injection {
    Injection { delivery, agent_image: "muster/agent:1".into(), ..Injection::default() }
}

/// A pod of group g with template t; `change` makes it special.
fn pod(change: impl FnOnce(&mut Json)) -> Json {
    let mut pod = json!({
        "metadata": {"name": "w-0", "labels": {RANK_GROUP: "g"}, "annotations": {RANKTABLE_TEMPLATE[0]: "t"}},
        "spec": {"containers": [{"name": "main"}, {"name": "side"}]},
    });
    change(&mut pod);
    pod
}

#[test]
fn a_pod_of_no_group_stays_as_it_is() {
    let never = |_: &str| -> Result<Arc<TableTemplate>, TemplateProblem> { unreachable!() };
    for pod in [
        json!({}),
        json!({"metadata": null}),
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"labels": {"a": "b"}, "annotations": {RANKTABLE_TEMPLATE[0]: "t"}}}),
    ] {
        let outcome = mutate(&pod, "n", never, &Injection::default()).unwrap();
        assert_eq!(outcome, Outcome::default());
    }
}

#[test]
fn a_pod_that_names_no_template_stays_as_it_is_with_a_warning() {
    for annotations in [json!(null), json!({}), json!({RANKTABLE_TEMPLATE[0]: " "})] {
        let pod = pod(|pod| pod["metadata"]["annotations"] = annotations);
        let outcome = inject(&pod, &Injection::default()).unwrap();
        assert_eq!(outcome.patch, [] as [Json; 0]);
        assert_eq!(
            outcome.warnings,
            [
                "rank group g: this pod gets no table, since it names no template; add the annotation muster.dev/ranktable-template"
            ]
        );
    }
}

#[test]
fn a_pod_that_names_no_template_is_not_refused_for_its_other_marks() {
    let pod = json!({"metadata": {"labels": {RANK_GROUP: "A_b"}, "annotations": {RANKTABLE_DELIVERY: "pigeon"}}});
    let outcome = inject(&pod, &Injection::default()).unwrap();
    assert_eq!((outcome.patch.len(), outcome.warnings.len()), (0, 1));
}

#[test]
fn our_annotation_goes_before_the_seeds() {
    let pod =
        pod(|pod| pod["metadata"]["annotations"][RANKTABLE_TEMPLATE[1]] = json!("The seed's"));
    let asked = |name: &str| {
        assert_eq!(name, "t");
        Ok(template("/a", "b"))
    };
    assert!(!mutate(&pod, "n", asked, &Injection::default()).unwrap().patch.is_empty());
}

#[test]
fn what_the_author_wrote_is_kept() {
    let own = pod(|pod| {
        pod["spec"] = json!({
            "volumes": [{"name": "ranktable", "emptyDir": {"medium": "Memory"}}],
            "initContainers": [{"name": "wait-ranktable", "image": "mine"}],
            "containers": [
                {"name": "main", "volumeMounts": [{"name": "ranktable", "mountPath": "/elsewhere"}]},
                {"name": "side", "volumeMounts": [{"name": "ranktable", "mountPath": "/etc/ascend/ranktable/"}]},
            ],
        });
    });
    let outcome = inject(&own, &by(Delivery::Agent)).unwrap();
    let mut expected = own.clone();
    expected["metadata"]["annotations"][RANKTABLE_FILE] = json!("ranktable.json");
    assert_eq!(applied(&own, &outcome), expected);
    assert_eq!(outcome.warnings, [] as [String; 0]);
}

#[test]
fn a_waiting_container_of_the_authors_own_is_kept_even_as_a_sidecar() {
    let own = json!([{"name": "wait-ranktable", "restartPolicy": "Always"}]);
    let pod = pod(|pod| pod["spec"]["initContainers"] = own.clone());
    let done = applied(&pod, &inject(&pod, &by(Delivery::Agent)).unwrap());
    assert_eq!(done["spec"]["initContainers"], own);
}

#[test]
fn a_volume_is_what_the_api_server_takes_it_for() {
    let agent = [json!({}), json!({"emptyDir": null}), json!({"emptyDir": {}, "hostPath": null})];
    let config_map =
        [json!({"configMap": {"name": "g-ranktable", "optional": true}, "emptyDir": null})];
    let agent = agent.into_iter().map(|volume| (volume, Delivery::Agent));
    for (mut volume, delivery) in
        agent.chain(config_map.map(|volume| (volume, Delivery::ConfigMap)))
    {
        volume["name"] = json!("ranktable");
        let pod = pod(|pod| pod["spec"]["volumes"] = json!([volume]));
        let done = applied(&pod, &inject(&pod, &by(delivery)).unwrap());
        assert_eq!(done["spec"]["volumes"], pod["spec"]["volumes"]);
    }
}

#[test]
fn a_slash_at_the_end_of_the_path_is_not_doubled() {
    let pod = pod(|_| ());
    let outcome = mutate(&pod, "n", |_| Ok(template("/a/", "b")), &by(Delivery::Agent)).unwrap();
    assert_eq!(applied(&pod, &outcome)["spec"]["initContainers"][0]["command"][3], "/a/b");
}

#[test]
fn a_key_with_slashes_and_tildes_stays_one_key() {
    assert_eq!(escape("a.b/c~d~1"), "a.b~1c~0d~01");
}

#[test]
fn a_file_that_the_pod_names_already_is_what_it_waits_for() {
    let pod = pod(|pod| pod["metadata"]["annotations"][RANKTABLE_FILE] = json!("old.json"));
    let outcome = inject(&pod, &by(Delivery::Agent)).unwrap();
    let done = applied(&pod, &outcome);
    assert_eq!(done["metadata"], pod["metadata"]);
    assert_eq!(
        done["spec"]["initContainers"][0]["command"],
        json!(["muster-agent", "wait", "--file", "/etc/ascend/ranktable/old.json"])
    );
    assert_eq!(
        outcome.warnings,
        [
            "annotation muster.dev/ranktable-file: this pod waits for old.json, template t says ranktable.json; drop the annotation for that"
        ]
    );
}

#[test]
fn a_part_of_the_volume_is_warned_about() {
    let pod = pod(|pod| {
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "ranktable", "mountPath": "/x", "subPath": "ranktable.json"}]);
    });
    let outcome = inject(&pod, &by(Delivery::Agent)).unwrap();
    assert!(outcome.warnings[0].contains("container \"main\" mounts a part"), "{outcome:?}");
}

#[test]
fn only_the_named_containers_see_the_table() {
    let pod = pod(|pod| {
        pod["metadata"]["annotations"][RANKTABLE_CONTAINERS] = json!("side, proxy,");
        pod["spec"]["initContainers"] = json!([
            {"name": "proxy", "restartPolicy": "Always"},
            {"name": "log", "restartPolicy": "Always"},
        ]);
        // Where no table goes, other volumes may.
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "x", "mountPath": "/etc/ascend/ranktable"}]);
    });
    let done = applied(&pod, &inject(&pod, &by(Delivery::Agent)).unwrap());
    let mounts = |list: &str, index: usize| done["spec"][list][index]["volumeMounts"].clone();
    let ours =
        json!([{"name": "ranktable", "mountPath": "/etc/ascend/ranktable", "readOnly": true}]);
    assert_eq!(mounts("containers", 0), pod["spec"]["containers"][0]["volumeMounts"]);
    assert_eq!(mounts("containers", 1), ours);
    assert_eq!(mounts("initContainers", 0), ours);
    assert_eq!(mounts("initContainers", 1), json!(null));
    assert_eq!(mounts("initContainers", 2), ours);
}

#[test]
fn a_time_limit_is_passed_on() {
    for (millis, words) in [(600_000, "600s"), (1_500, "1s500ms")] {
        let wait_timeout = Some(Duration::from_millis(millis));
        let settings = Injection { wait_timeout, ..by(Delivery::Agent) };
        let pod = pod(|_| ());
        let done = applied(&pod, &inject(&pod, &settings).unwrap());
        let command = &done["spec"]["initContainers"][0]["command"];
        assert_eq!((&command[4], &command[5]), (&json!("--timeout"), &json!(words)));
    }
}

#[test]
fn what_cannot_work_is_refused_with_its_remedy() {
    type Change = Box<dyn FnOnce(&mut Json)>;
    fn at(pointer: &'static str, value: Json) -> Change {
        Box::new(move |pod| {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = pod.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.insert(key.replace("~1", "/"), value);
        })
    }
    let volume = |source: Json| {
        let mut volume = json!({"name": "ranktable"});
        volume.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        at("/spec/volumes", json!([volume]))
    };
    let mark = |key: &'static str, value: &str| {
        let value = json!(value);
        Box::new(move |pod: &mut Json| pod["metadata"]["annotations"][key] = value) as Change
    };
    let cases: Vec<(Change, &str, &str)> = vec![
        (at("/spec", json!(null)), "pod-malformed", "pod n/w-0: spec is not an object: correct it"),
        (at("/spec/containers", json!("x")), "pod-malformed", "spec.containers is not a list"),
        (
            at("/spec/containers", json!(null)),
            "pod-malformed",
            "spec.containers is not a list of one",
        ),
        (
            at("/spec/containers", json!([1])),
            "pod-malformed",
            "spec.containers[0] is not an object",
        ),
        (at("/spec/volumes", json!({})), "pod-malformed", "spec.volumes is not a list"),
        (
            at("/spec/initContainers", json!(7)),
            "pod-malformed",
            "spec.initContainers is not a list",
        ),
        (
            at("/spec/containers", json!([{"name": "a", "volumeMounts": true}])),
            "pod-malformed",
            "spec.containers[0].volumeMounts is not a list",
        ),
        (
            at("/metadata/labels", json!({RANK_GROUP: 7})),
            "pod-malformed",
            "metadata.labels[muster.dev/rank-group] is not a text",
        ),
        (
            at("/metadata/labels", json!({RANK_GROUP: "A_b"})),
            "mark-invalid",
            "label muster.dev/rank-group: \"A_b\" is not allowed; use at most 63 lower-case",
        ),
        (
            at("/metadata/labels", json!({RANK_GROUP: ""})),
            "mark-invalid",
            "label muster.dev/rank-group",
        ),
        (at("/metadata/labels", json!({RANK_GROUP: "a".repeat(64)})), "mark-invalid", "at most 63"),
        (
            mark(RANKTABLE_DELIVERY, "pigeon"),
            "mark-invalid",
            "annotation muster.dev/ranktable-delivery: \"pigeon\" is not allowed; use agent or configmap",
        ),
        (mark(RANKTABLE_TEMPLATE[0], "../x"), "mark-invalid", "use the name of a ConfigMap"),
        (
            mark(RANKTABLE_TEMPLATE[0], "absent"),
            "template-missing",
            "there is no template k/absent: create the ConfigMap",
        ),
        (
            mark(RANKTABLE_FILE, "a\"; rm -rf /"),
            "mark-invalid",
            "annotation muster.dev/ranktable-file",
        ),
        (mark(RANKTABLE_CONTAINERS, " ,"), "mark-invalid", "names of containers"),
        (
            mark(RANKTABLE_CONTAINERS, "main,nope"),
            "container-missing",
            "there is no container \"nope\" that could use a table; use some of: main, side",
        ),
        (
            volume(json!({"hostPath": {"path": "/x"}})),
            "volume-taken",
            "volume ranktable is hostPath, and delivery agent needs emptyDir: make it that, rename it",
        ),
        (
            volume(json!({"configMap": {"name": "mine"}})),
            "volume-taken",
            "volume ranktable is configMap mine, and delivery agent needs emptyDir",
        ),
        (
            at(
                "/spec/containers",
                json!([{"name": "a", "volumeMounts": [{"name": "b", "mountPath": "//etc/./ascend/ranktable/"}]}]),
            ),
            "mount-taken",
            "container \"a\" mounts volume \"b\" at /etc/ascend/ranktable, where the table goes: mount it elsewhere",
        ),
        (
            at("/spec/containers", json!([{"name": "wait-ranktable"}])),
            "container-name-taken",
            "container wait-ranktable has the name of the init container",
        ),
        (
            at("/spec/containers", Json::Array(vec![json!({}); 1001])),
            "too-many-containers",
            "1001 containers are too many: use at most 1000",
        ),
    ];
    for (change, reason, message) in cases {
        let refusal = inject(&pod(change), &by(Delivery::Agent)).unwrap_err();
        assert_eq!(refusal.reason(), reason, "{refusal}");
        assert!(refusal.to_string().contains(message), "{refusal}\n{message}");
    }
    for source in [json!({"emptyDir": {}}), json!({}), json!({"configMap": {"name": "other"}})] {
        let refusal = inject(&pod(volume(source)), &by(Delivery::ConfigMap)).unwrap_err();
        assert!(refusal.to_string().contains("needs configMap g-ranktable"), "{refusal}");
    }
    let refusal = inject(&json!([]), &Injection::default()).unwrap_err();
    assert_eq!(refusal.to_string(), "pod n/without a name: the pod is not an object: correct it");
}

#[test]
fn a_refusal_names_a_pod_that_has_no_name_yet_and_stays_short() {
    let pod = pod(|pod| {
        pod["metadata"]["name"] = json!(null);
        pod["metadata"]["generateName"] = json!("job-");
        pod["metadata"]["labels"][RANK_GROUP] = json!("é".repeat(100_000));
    });
    let refusal = inject(&pod, &Injection::default()).unwrap_err().to_string();
    assert!(refusal.starts_with("pod n/job-…: label muster.dev/rank-group: \"éé"), "{refusal}");
    assert!(refusal.len() < 1000, "{}", refusal.len());
}
