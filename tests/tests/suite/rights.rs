//! What each identity may do, asked of the API server's own authorizer.
//!
//! Of agents, of `musterctl` and of the coordinators' writes the lists are whole: every verb of every resource that the server
//! has is asked, and what is not listed must be refused. That an agent changes nothing but one annotation of pods of its own node is
//! not RBAC's: `agent.rs` tries it. That a tenant forges no device is not RBAC's either: `ranktable.rs` tries it.

mod lists;

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Discovery;
use kube::api::{Api, DeleteParams, PostParams};
use muster_tests::World;
use muster_tests::world::Seen;
use muster_tests::world::coordinators::Choices;
use muster_tests::world::people;
use serde_json::{Value, json};

use super::leaderworkerset;
use lists::{AGENT, COORDINATOR, CTL, Question, READS, TENANT, WRITES};

/// Our own namespace.
const OWN: &str = "muster-system";
/// What a question names for the namespace that the tenant works in.
const HERE: &str = "HERE";
const CTL_ROLE: &str = include_str!("../../../deploy/ctl/role.yaml");
/// Questions under way at a time.
const AT_ONCE: usize = 16;

/// Somebody that the authorizer knows.
struct Who {
    user: String,
    groups: Vec<String>,
}

impl Who {
    fn account(namespace: &str, name: &str) -> Self {
        let groups =
            ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        Self { user: format!("system:serviceaccount:{namespace}:{name}"), groups: groups.into() }
    }

    fn person(name: &str) -> Self {
        Self { user: name.to_owned(), groups: Vec::new() }
    }

    async fn may(&self, world: &World, question: (&str, &str, &str, &str, &str)) -> Result<bool> {
        let (verb, group, resource, namespace, name) = question;
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let namespace = if namespace == HERE { world.namespace() } else { namespace };
        let mut groups = self.groups.clone();
        groups.push("system:authenticated".to_owned());
        let review: SubjectAccessReview = serde_json::from_value(json!({"metadata": {}, "spec": {
            "user": self.user, "groups": groups,
            "resourceAttributes": {"verb": verb, "group": group, "resource": resource,
                "subresource": subresource, "namespace": namespace, "name": name},
        }}))?;
        let api: Api<SubjectAccessReview> = Api::all(world.client());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Asks everything of two lists; an error names what is answered otherwise than it should be.
    async fn ask(&self, world: &World, allowed: &[Question], refused: &[Question]) -> Result<()> {
        // New roles count a moment later.
        let first = allowed[0];
        world
            .until("the first right", async || {
                let may = self.may(world, first).await?;
                Ok(if may { Seen::Yes(()) } else { Seen::NotYet(format!("{first:?} is refused")) })
            })
            .await?;
        let mut wrong = Vec::new();
        for (wanted, questions) in [(true, allowed), (false, refused)] {
            for question in questions {
                if self.may(world, *question).await? != wanted {
                    wrong.push((wanted, question));
                }
            }
        }
        ensure!(wrong.is_empty(), "{}, as it should be: {wrong:#?}", self.user);
        Ok(())
    }

    /// All of these verbs that it may use on any resource of the server, as `verb group/resource`.
    async fn all(
        &self,
        world: &World,
        resources: &[(String, String)],
        verbs: &[&str],
        namespace: &str,
    ) -> Result<BTreeSet<String>> {
        let questions = resources.iter().flat_map(|one| verbs.iter().map(move |verb| (one, *verb)));
        let answers = questions.map(async |((group, resource), verb)| {
            let may = self.may(world, (verb, group, resource, namespace, "")).await?;
            anyhow::Ok(may.then(|| format!("{verb} {group}/{resource}")))
        });
        let answers: Vec<Option<String>> =
            stream::iter(answers).buffer_unordered(AT_ONCE).try_collect().await?;
        let everybody = lists::EVERYBODY.iter().map(|one| (*one).to_owned()).collect();
        Ok(&answers.into_iter().flatten().collect::<BTreeSet<_>>() - &everybody)
    }
}

/// Group and name of every resource and subresource that the server has.
async fn resources(world: &World) -> Result<Vec<(String, String)>> {
    let found = Discovery::new(world.client()).run().await?;
    let mut all = Vec::new();
    for (resource, can) in found.groups().flat_map(|group| group.recommended_resources()) {
        let (group, plural) = (resource.group, resource.plural);
        for (below, _) in can.subresources {
            all.push((
                group.clone(),
                format!("{plural}/{}", below.plural.trim_start_matches(&format!("{plural}/"))),
            ));
        }
        all.push((group, plural));
    }
    ensure!(all.contains(&(String::new(), "pods/binding".to_owned())), "no subresources: {all:?}");
    Ok(all)
}

fn verbs() -> Vec<&'static str> {
    READS.iter().chain(WRITES).copied().collect()
}

/// A list of `verbs group/resource ...`, spread out.
fn spread(list: &[(&str, &str)]) -> BTreeSet<String> {
    let each = |(verbs, resources): &(&str, &str)| -> Vec<String> {
        let of = |verb: &str| -> Vec<String> {
            resources.split_whitespace().map(|one| format!("{verb} {one}")).collect()
        };
        verbs.split_whitespace().flat_map(of).collect()
    };
    list.iter().flat_map(each).collect()
}

/// What the server does not have is not asked.
fn same(
    found: &BTreeSet<String>,
    listed: BTreeSet<String>,
    known: &[(String, String)],
) -> Result<()> {
    let known: BTreeSet<String> =
        known.iter().map(|(group, name)| format!("{group}/{name}")).collect();
    let is_known = |one: &String| one.split_once(' ').is_some_and(|(_, what)| known.contains(what));
    let listed: BTreeSet<String> = listed.into_iter().filter(is_known).collect();
    let more: Vec<_> = found.difference(&listed).collect();
    let less: Vec<_> = listed.difference(found).collect();
    ensure!(more.is_empty() && less.is_empty(), "too much: {more:#?}, too little: {less:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_may_list_watch_and_patch_pods_and_get_nodes_and_nothing_else() -> Result<()> {
    World::new()
        .strict(true)
        .agents()
        .run(async |world| {
            let agent = Who::account(OWN, "muster-agent");
            agent.ask(world, AGENT.0, AGENT.1).await?;
            let known = resources(world).await?;
            for namespace in ["", OWN] {
                let found = agent.all(world, &known, &verbs(), namespace).await?;
                same(&found, spread(&[("list watch patch", "/pods"), ("get", "/nodes")]), &known)?;
            }
            Ok(())
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_may_write_what_is_listed_and_nothing_else() -> Result<()> {
    World::new()
        .strict(true)
        .agents()
        .run(async |world| {
            let coordinator = Who::account(OWN, "muster-coordinator");
            coordinator.ask(world, COORDINATOR.0, COORDINATOR.1).await?;
            let known = resources(world).await?;
            let found = coordinator.all(world, &known, WRITES, "").await?;
            same(&found, spread(lists::COORDINATOR_WRITES), &known)?;
            let own = coordinator.all(world, &known, WRITES, OWN).await?;
            let more = &own - &found;
            // Without a name, as a list of names does not restrict creation.
            same(&more, spread(&[("create", "coordination.k8s.io/leases")]), &known)
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_coordinator_of_leader_worker_sets_may_apply_their_servings_beside_that_and_nothing_else()
-> Result<()> {
    let choices = Choices { leader_worker_sets: true, ..Choices::default() };
    World::new()
        .strict(true)
        .coordinators(1)
        .choices(choices)
        .run(async |world| {
            world.create_if_missing(leaderworkerset::definition()).await?;
            let coordinator = Who::account(OWN, "muster-coordinator");
            let (allowed, refused) = lists::LEADER_WORKER_SETS;
            coordinator.ask(world, allowed, refused).await?;
            let known = resources(world).await?;
            let found = coordinator.all(world, &known, WRITES, "").await?;
            let listed = [lists::COORDINATOR_WRITES, lists::LEADER_WORKER_SET_WRITES].concat();
            same(&found, spread(&listed), &known)
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_the_role_of_musterctl_may_list_and_nothing_else() -> Result<()> {
    World::new()
        .strict(true)
        .coordinators(1)
        .run(async |world| {
            for document in serde_saphyr::from_multiple::<Value>(CTL_ROLE)? {
                world.create_if_missing(document).await?;
            }
            let name = world.own("reads-the-cluster");
            let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "musterctl"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}]});
            world.create_object(binding).await?;
            let person = Who::person(&name);
            let asked = async {
                person.ask(world, CTL.0, CTL.1).await?;
                let known = resources(world).await?;
                let found = person.all(world, &known, &verbs(), "").await?;
                same(&found, spread(&[("list", lists::CTL_LISTS)]), &known)
            };
            let asked = asked.await;
            let bindings: Api<ClusterRoleBinding> = Api::all(world.client());
            bindings.delete(&name, &DeleteParams::default()).await?;
            asked
        })
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_who_may_edit_its_namespace_reaches_nothing_of_ours_and_nobody_elses() -> Result<()>
{
    World::new()
        .strict(true)
        .agents()
        .run(async |world| {
            world.tenant().await?;
            let tenant = Who::account(world.namespace(), people::TENANT);
            tenant.ask(world, TENANT.0, TENANT.1).await?;
            let known = resources(world).await?;
            for elsewhere in ["", OWN] {
                let found = tenant.all(world, &known, &verbs(), elsewhere).await?;
                same(&found, BTreeSet::new(), &known)?;
            }
            Ok(())
        })
        .await
}
