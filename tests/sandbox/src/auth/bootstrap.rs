//! The roles and bindings that a cluster has from its start.

use serde_json::{Value, json};

/// Verbs, API groups (`core` for the one without name) and resources, each separated by blanks.
type Rule = (&'static str, &'static str, &'static str);

const READ: &str = "get list watch";
const WRITE: &str = "create update patch delete deletecollection";
const READ_WRITE: &str = "get list watch create update patch delete deletecollection";
const READ_UPDATE: &str = "get list watch update patch";
/// In place of API groups: the resources are URLs.
const URLS: &str = "(urls)";

const AGGREGATED: [(&str, &str, &str); 3] =
    [("admin", "", "admin"), ("edit", "admin", "edit"), ("view", "edit", "view")];

/// Name, the role it is aggregated to, rules.
const ROLES: [(&str, &str, &[Rule]); 16] = [
    ("cluster-admin", "", &[("*", "*", "*"), ("*", URLS, "*")]),
    (
        "system:discovery",
        "",
        &[(
            "get",
            URLS,
            "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/",
        )],
    ),
    (
        "system:basic-user",
        "",
        &[
            ("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            ("create", "authentication.k8s.io", "selfsubjectreviews"),
        ],
    ),
    (
        "system:public-info-viewer",
        "",
        &[("get", URLS, "/healthz /livez /readyz /version /version/")],
    ),
    (
        "system:monitoring",
        "",
        &[
            (
                "get",
                URLS,
                "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*",
            ),
            ("get", "core", "nodes/metrics"),
        ],
    ),
    (
        "system:service-account-issuer-discovery",
        "",
        &[(
            "get",
            URLS,
            "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    (
        "system:auth-delegator",
        "",
        &[
            ("create", "authentication.k8s.io", "tokenreviews"),
            ("create", "authorization.k8s.io", "subjectaccessreviews"),
        ],
    ),
    (
        "system:aggregate-to-admin",
        "admin",
        &[
            ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
            (READ_WRITE, "rbac.authorization.k8s.io", "roles rolebindings"),
        ],
    ),
    (
        "system:aggregate-to-edit",
        "edit",
        &[
            (
                READ,
                "core",
                "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy",
            ),
            ("impersonate", "core", "serviceaccounts"),
            (WRITE, "core", "pods pods/attach pods/proxy pods/exec pods/portforward"),
            ("create", "core", "pods/eviction"),
            (
                WRITE,
                "core",
                "replicationcontrollers replicationcontrollers/scale serviceaccounts services services/proxy persistentvolumeclaims configmaps secrets events",
            ),
            ("create", "core", "serviceaccounts/token"),
            (
                WRITE,
                "apps",
                "statefulsets statefulsets/scale daemonsets deployments deployments/scale deployments/rollback replicasets replicasets/scale",
            ),
            (WRITE, "autoscaling", "horizontalpodautoscalers"),
            (WRITE, "batch", "jobs cronjobs"),
            (WRITE, "policy", "poddisruptionbudgets"),
            (WRITE, "networking.k8s.io", "networkpolicies ingresses"),
            (READ_WRITE, "coordination.k8s.io", "leases"),
            (WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
        ],
    ),
    (
        "system:aggregate-to-view",
        "view",
        &[
            (
                READ,
                "core",
                "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status endpoints persistentvolumeclaims persistentvolumeclaims/status configmaps",
            ),
            (
                READ,
                "core",
                "limitranges resourcequotas bindings events pods/status resourcequotas/status namespaces/status replicationcontrollers/status pods/log",
            ),
            (READ, "core", "namespaces"),
            (READ, "discovery.k8s.io", "endpointslices"),
            (
                READ,
                "apps",
                "controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets daemonsets/status deployments deployments/status deployments/scale replicasets replicasets/status replicasets/scale",
            ),
            (READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
            (READ, "batch", "jobs cronjobs cronjobs/status jobs/status"),
            (READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
            (READ, "networking.k8s.io", "networkpolicies ingresses ingresses/status"),
            (
                READ,
                "resource.k8s.io",
                "resourceclaims resourceclaims/status resourceclaimtemplates",
            ),
        ],
    ),
    (NODE, "", NODE_RULES),
    (
        "system:node-proxier",
        "",
        &[
            ("list watch", "core", "services endpoints"),
            (READ, "core", "nodes"),
            ("create patch update", "core events.k8s.io", "events"),
            ("list watch", "networking.k8s.io", "servicecidrs"),
            ("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    ),
    ("system:kube-scheduler", "", SCHEDULER_RULES),
    (
        "system:volume-scheduler",
        "",
        &[
            (READ_UPDATE, "core", "persistentvolumes"),
            (READ, "storage.k8s.io", "storageclasses"),
            (READ_UPDATE, "core", "persistentvolumeclaims"),
        ],
    ),
    (
        "system:kubelet-api-admin",
        "",
        &[
            (READ, "core", "nodes"),
            ("proxy", "core", "nodes"),
            ("*", "core", "nodes/proxy nodes/metrics nodes/stats nodes/log"),
            ("*", "core", "nodes/pods nodes/healthz nodes/configz"),
        ],
    ),
    (
        "system:kube-controller-manager",
        "",
        &[
            ("create patch update", "core events.k8s.io", "events"),
            ("create get update", "coordination.k8s.io", "leases"),
            ("create get update", "core", "secrets serviceaccounts"),
            ("delete", "core", "secrets"),
            ("get", "core", "namespaces configmaps"),
            ("create", "authentication.k8s.io", "tokenreviews"),
            ("create", "authorization.k8s.io", "subjectaccessreviews"),
            ("list watch", "*", "*"),
            ("create", "core", "serviceaccounts/token"),
        ],
    ),
];

const NODE: &str = "system:node";

const NODE_RULES: &[Rule] = &[
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews localsubjectaccessreviews"),
    (READ, "core", "services"),
    ("create get list watch", "core", "nodes"),
    ("update patch", "core", "nodes/status"),
    ("update patch", "core", "nodes"),
    ("create update patch", "core", "events"),
    (READ, "core", "pods"),
    ("create delete", "core", "pods"),
    ("update patch", "core", "pods/status"),
    ("create", "core", "pods/eviction"),
    (READ, "core", "secrets configmaps"),
    ("get", "core", "persistentvolumeclaims persistentvolumes"),
    ("get", "core", "endpoints"),
    ("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    ("get create update patch delete", "coordination.k8s.io", "leases"),
    ("get", "storage.k8s.io", "volumeattachments"),
    ("create", "core", "serviceaccounts/token"),
    ("get update patch", "core", "persistentvolumeclaims/status"),
    (READ, "storage.k8s.io", "csidrivers"),
    ("get create update patch delete", "storage.k8s.io", "csinodes"),
    (READ, "node.k8s.io", "runtimeclasses"),
    ("get", "resource.k8s.io", "resourceclaims"),
    ("deletecollection", "resource.k8s.io", "resourceslices"),
    ("get", "core", "serviceaccounts"),
];

const SCHEDULER_RULES: &[Rule] = &[
    ("create patch update", "core events.k8s.io", "events"),
    ("create", "coordination.k8s.io", "leases"),
    (READ_WRITE, "coordination.k8s.io", "leasecandidates"),
    (READ, "core", "nodes"),
    ("get list watch delete", "core", "pods"),
    ("create", "core", "pods/binding bindings"),
    ("patch update", "core", "pods/status"),
    (READ, "core", "services replicationcontrollers"),
    (READ, "apps extensions", "replicasets"),
    (READ, "apps", "statefulsets"),
    (READ, "policy", "poddisruptionbudgets"),
    (READ, "core", "persistentvolumeclaims persistentvolumes"),
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
    (READ, "storage.k8s.io", "csinodes volumeattachments csidrivers csistoragecapacities"),
    (READ, "core", "namespaces"),
    (READ, "resource.k8s.io", "deviceclasses resourceslices"),
    (READ_UPDATE, "resource.k8s.io", "resourceclaims resourceclaims/status"),
    ("update", "core", "pods/finalizers"),
];

/// Role and subjects (`Kind:name`, separated by blanks) of the bindings; each is named like its role.
const BINDINGS: [(&str, &str); 11] = [
    ("cluster-admin", "Group=system:masters"),
    ("system:monitoring", "Group=system:monitoring"),
    ("system:discovery", "Group=system:authenticated"),
    ("system:basic-user", "Group=system:authenticated"),
    ("system:public-info-viewer", "Group=system:authenticated Group=system:unauthenticated"),
    ("system:node-proxier", "User=system:kube-proxy"),
    ("system:kube-controller-manager", "User=system:kube-controller-manager"),
    ("system:kube-scheduler", "User=system:kube-scheduler"),
    ("system:volume-scheduler", "User=system:kube-scheduler"),
    ("system:service-account-issuer-discovery", "Group=system:serviceaccounts"),
    (NODE, ""),
];

const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const CLUSTER_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";

/// The objects, each with its resource as the store names it.
pub fn bootstrap() -> Vec<(&'static str, Value)> {
    let mut objects = Vec::new();
    for (name, to, of) in AGGREGATED {
        let mut role = json!({"metadata": metadata(name, to), "rules": null});
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{of}");
        role["aggregationRule"] =
            json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        objects.push((CLUSTER_ROLES, role));
    }
    for (name, to, rules) in ROLES {
        let mut rules: Vec<Value> = rules.iter().map(rule).collect();
        if name == "system:kube-scheduler" {
            let mut lease = rule(&("get update list watch", "coordination.k8s.io", "leases"));
            lease["resourceNames"] = json!(["kube-scheduler"]);
            rules.push(lease);
        }
        objects.push((CLUSTER_ROLES, json!({"metadata": metadata(name, to), "rules": rules})));
    }
    for (name, subjects) in BINDINGS {
        let subjects: Vec<Value> = words(subjects)
            .filter_map(|subject| subject.split_once('='))
            .map(|(kind, name)| {
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
            })
            .collect();
        let mut binding = json!({
            "metadata": metadata(name, ""),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        });
        if !subjects.is_empty() {
            binding["subjects"] = json!(subjects);
        }
        objects.push((CLUSTER_BINDINGS, binding));
    }
    objects
}

/// What every kubelet may do, before it is narrowed to its own node.
pub(super) fn node_rules() -> Vec<Value> {
    NODE_RULES.iter().map(rule).collect()
}

fn metadata(name: &str, aggregated_to: &str) -> Value {
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    if !aggregated_to.is_empty() {
        labels[format!("rbac.authorization.k8s.io/aggregate-to-{aggregated_to}")] = json!("true");
    }
    json!({
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn rule(&(verbs, groups, resources): &Rule) -> Value {
    let verbs: Vec<&str> = words(verbs).collect();
    let resources: Vec<&str> = words(resources).collect();
    if groups == URLS {
        return json!({"verbs": verbs, "nonResourceURLs": resources});
    }
    let groups: Vec<&str> = words(groups).map(|g| if g == "core" { "" } else { g }).collect();
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
}

fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split(' ').filter(|word| !word.is_empty())
}
