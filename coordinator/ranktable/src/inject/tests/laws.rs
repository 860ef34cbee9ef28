//! What is true of every pod.

use proptest::prelude::*;

use super::*;
use crate::inject::frame::same_path;

const PATH: &str = "/etc/ascend/ranktable";

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        16 => "[a-c]",
        1 => Just(VOLUME.to_owned()),
        1 => Just(WAITER.to_owned()),
        1 => Just("~1/~0\"'$(x)\n".to_owned()),
        1 => any::<String>(),
    ]
}

/// Missing, null, a list, or (seldom) something else.
fn list(item: BoxedStrategy<Json>) -> BoxedStrategy<Option<Json>> {
    prop_oneof![
        6 => Just(None),
        3 => Just(Some(Json::Null)),
        60 => prop::collection::vec(item, 0..4).prop_map(|items| Some(Json::Array(items))),
        1 => prop_oneof![Just(json!("x")), Just(json!({"0": {}})), Just(json!([null, 7]))].prop_map(Some),
    ]
    .boxed()
}

fn object(fields: Vec<(&'static str, Option<Json>)>) -> Json {
    let some = fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Json::Object(some.collect())
}

fn mount() -> BoxedStrategy<Json> {
    let path = prop_oneof![
        24 => "/[a-c]",
        1 => Just(PATH.to_owned()),
        1 => Just(format!("{PATH}/.//")),
        1 => any::<String>(),
    ];
    let part = prop_oneof![4 => Just(None), 1 => Just(Some(json!("p")))];
    (text(), path, part)
        .prop_map(|(name, path, part)| {
            object(vec![
                ("name", Some(json!(name))),
                ("mountPath", Some(json!(path))),
                ("subPath", part),
            ])
        })
        .boxed()
}

fn container() -> BoxedStrategy<Json> {
    let restart = prop_oneof![
        Just(None),
        Just(Some(json!("Always"))),
        Just(Some(json!("Never"))),
        Just(Some(json!(null)))
    ];
    let name = prop_oneof![9 => text().prop_map(|name| Some(json!(name))), 1 => Just(None)];
    (name, restart, list(mount()), prop::option::of(Just(json!({"limits": {"a": 1}}))))
        .prop_map(|(name, restart, mounts, resources)| {
            object(vec![
                ("name", name),
                ("restartPolicy", restart),
                ("volumeMounts", mounts),
                ("resources", resources),
            ])
        })
        .boxed()
}

fn volume() -> BoxedStrategy<Json> {
    let source = prop_oneof![
        4 => Just(json!({"emptyDir": {}})),
        2 => Just(json!({"configMap": {"name": "g-ranktable"}})),
        1 => Just(json!({"configMap": {"name": "x"}, "emptyDir": null})),
        1 => Just(json!({"configMap": 7})),
        1 => Just(json!({"hostPath": {"path": "/"}})),
        1 => Just(json!({})),
    ];
    (text(), source)
        .prop_map(|(name, mut volume)| {
            volume["name"] = json!(name);
            volume
        })
        .boxed()
}

fn annotations() -> BoxedStrategy<Option<Json>> {
    let template = prop_oneof![20 => Just(Some(json!("t"))), 1 => Just(None), 1 => text().prop_map(|t| Some(json!(t)))];
    let delivery = prop_oneof![
        12 => Just(None),
        2 => Just(Some(json!("agent"))),
        2 => Just(Some(json!("configmap"))),
        1 => text().prop_map(|t| Some(json!(t))),
    ];
    let containers =
        prop_oneof![6 => Just(None), 1 => Just(Some(json!("a"))), 1 => Just(Some(json!("a,b")))];
    let file =
        prop_oneof![8 => Just(None), 1 => Just(Some(json!("f"))), 1 => Just(Some(Json::Null))];
    let [ours, seeds] = RANKTABLE_TEMPLATE;
    let map = (template, any::<bool>(), delivery, containers, file).prop_map(
        move |(template, other, delivery, containers, file)| {
            Some(object(vec![
                (if other { seeds } else { ours }, template),
                (RANKTABLE_DELIVERY, delivery),
                (RANKTABLE_CONTAINERS, containers),
                (RANKTABLE_FILE, file),
            ]))
        },
    );
    prop_oneof![20 => map, 1 => Just(None), 1 => Just(Some(json!("x")))].boxed()
}

/// Any pod, many of them no good.
fn any_pod() -> impl Strategy<Value = Json> {
    let labels = prop_oneof![
        40 => Just(Some(json!({RANK_GROUP: "g"}))),
        1 => Just(None),
        1 => Just(Some(Json::Null)),
        1 => text().prop_map(|t| Some(json!({RANK_GROUP: t}))),
    ];
    let lists = (list(container()), list(container()), list(volume()), list(container()));
    (labels, annotations(), lists).prop_map(|(labels, annotations, lists)| {
        let (containers, init, volumes, ephemeral) = lists;
        let metadata = object(vec![("labels", labels), ("annotations", annotations)]);
        let spec = object(vec![
            ("containers", containers),
            ("initContainers", init),
            ("volumes", volumes),
            ("ephemeralContainers", ephemeral),
        ]);
        json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    })
}

/// Pods in which nothing is in the way.
fn good_pod() -> impl Strategy<Value = Json> {
    let mounts = || {
        prop_oneof![
            Just(None),
            Just(Some(Json::Null)),
            Just(Some(json!([]))),
            Just(Some(json!([{"name": "a", "mountPath": "/a"}]))),
            Just(Some(json!([{"name": "ranktable", "mountPath": PATH}])))
        ]
    };
    let containers = |least: usize, sidecars: bool| {
        prop::collection::vec((mounts(), any::<bool>()), least..5).prop_map(move |list| {
            let containers = list.into_iter().enumerate().map(|(index, (mounts, sidecar))| {
                let kind = if sidecars { "i" } else { "c" };
                let restart = (sidecars && sidecar).then(|| json!("Always"));
                object(vec![
                    ("name", Some(json!(format!("{kind}{index}")))),
                    ("volumeMounts", mounts),
                    ("restartPolicy", restart),
                ])
            });
            Json::Array(containers.collect())
        })
    };
    let volumes = prop_oneof![
        Just(None),
        Just(Some(Json::Null)),
        Just(Some(json!([]))),
        Just(Some(json!([{"name": "a", "hostPath": {}}])))
    ];
    (containers(1, false), prop::option::of(containers(0, true)), volumes).prop_map(
        |(containers, init, volumes)| {
            pod(|pod| {
                pod["spec"] = object(vec![
                    ("containers", Some(containers)),
                    ("initContainers", init),
                    ("volumes", volumes),
                ])
            })
        },
    )
}

/// Any JSON, with our keys here and there.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i32>().prop_map(Json::from),
        text().prop_map(Json::from),
        Just(json!("g"))
    ];
    let key = prop::sample::select(vec![
        "metadata",
        "labels",
        "annotations",
        "spec",
        "containers",
        "initContainers",
        "volumes",
        "volumeMounts",
        "name",
        RANK_GROUP,
        RANKTABLE_TEMPLATE[0],
        RANKTABLE_FILE,
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|fields| Json::Object(
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    prop_oneof![Just(Delivery::Agent), Just(Delivery::ConfigMap)]
}

fn items<'a>(pod: &'a Json, list: &str) -> &'a [Json] {
    pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The pod with our things taken out again, and empty lists as if they were missing.
fn without_ours(before: &Json, mut after: Json) -> Json {
    for (list, most) in [("containers", true), ("initContainers", false), ("volumes", false)] {
        let count = items(before, list).len();
        let Some(now) = after["spec"][list].as_array_mut() else { continue };
        assert!(now.len() == count || !most && now.len() == count + 1);
        now.truncate(count);
        for (index, item) in now.iter_mut().enumerate() {
            let then = &items(before, list)[index]["volumeMounts"];
            let count = then.as_array().map_or(0, Vec::len);
            if let Some(mounts) = item["volumeMounts"].as_array_mut() {
                assert!(mounts.len() <= count + 1);
                mounts.truncate(count);
            }
        }
    }
    after["metadata"]["annotations"].as_object_mut().unwrap().remove(RANKTABLE_FILE);
    after
}

/// Missing, null and empty lists are one.
fn plain(json: &Json) -> Json {
    match json {
        Json::Array(items) => Json::Array(items.iter().map(plain).collect()),
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), plain(value)));
            Json::Object(
                fields.filter(|(_, value)| *value != json!([]) && !value.is_null()).collect(),
            )
        }
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_patch_applies_adds_and_is_complete(pod in any_pod(), delivery in deliveries()) {
        match inject(&pod, &by(delivery)) {
            Err(refusal) => prop_assert!(refusal.to_string().len() < 2000 && !refusal.reason().is_empty()),
            Ok(outcome) if outcome.patch.is_empty() => (),
            Ok(outcome) => {
                let done = applied(&pod, &outcome);
                prop_assert_eq!(inject(&done, &by(delivery)).unwrap().patch, Vec::<Json>::new());
                let mut before = pod.clone();
                before["metadata"]["annotations"].as_object_mut().unwrap().remove(RANKTABLE_FILE);
                prop_assert_eq!(plain(&without_ours(&pod, done)), plain(&before));
            }
        }
    }

    #[test]
    fn where_nothing_is_in_the_way_everything_is_there(pod in good_pod(), delivery in deliveries()) {
        let done = applied(&pod, &inject(&pod, &by(delivery)).unwrap());
        let sees = |container: &Json| {
            let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            mounts.iter().filter(|mount| mount["name"] == VOLUME && same_path(&mount["mountPath"], PATH)).count()
        };
        for container in items(&done, "containers") {
            prop_assert_eq!(sees(container), 1);
        }
        let (last, init) = items(&done, "initContainers").split_last().unwrap();
        prop_assert_eq!((name(last), sees(last)), (WAITER, 1));
        for (container, before) in init.iter().zip(items(&pod, "initContainers")) {
            let expected = if frame::is_sidecar(container) { 1 } else { sees(before) };
            prop_assert_eq!(sees(container), expected);
        }
        let volumes = items(&done, "volumes").iter().filter(|volume| name(volume) == VOLUME);
        prop_assert_eq!(volumes.count(), 1);
    }

    #[test]
    fn nothing_makes_it_panic(pod in any_json(), delivery in deliveries()) {
        if let Ok(outcome) = inject(&pod, &by(delivery)) {
            applied(&pod, &outcome);
        }
    }
}
