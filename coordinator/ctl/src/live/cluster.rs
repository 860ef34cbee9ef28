//! The API server: a client, and lists in pages. Every request has a time, every list an end.

use std::fmt::Display;
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::core::params::ListParams;
use kube::{Client, Config, Error};
use serde::Deserialize;
use serde_json::{Map, Value as Json};
use tokio::runtime::Runtime;

use super::kinds::{Kind, ListedFields, Need, Scope};
use super::prune::prune;
use crate::args::ClusterArgs;
use crate::{Failure, note};

/// How many objects of a list come at once.
const PAGE: u32 = 500;
/// How many pages a list may have: a million objects.
const PAGES: usize = 2000;
/// How often a list is begun again because the API server has forgotten its beginning.
const AGAIN: usize = 3;
/// How many requests' time a whole question may take.
const WHOLE: u32 = 20;

/// A cluster that can be asked.
pub(crate) struct Cluster {
    client: Client,
    url: String,
    request: Duration,
    runtime: Runtime,
}

/// A part of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default)]
    items: Option<Vec<Json>>,
}

#[derive(Default, Deserialize)]
struct PageMeta {
    #[serde(default, rename = "continue")]
    more: Option<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Reads the kubeconfig. Nothing is asked yet.
    pub(crate) fn new(args: &ClusterArgs) -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Wrong(format!("no runtime: {error}")))?;
        let mut config = runtime.block_on(settings(args))?;
        config.connect_timeout = Some(args.request_timeout.min(Duration::from_secs(10)));
        config.read_timeout = Some(args.request_timeout);
        config.write_timeout = Some(args.request_timeout);
        let url = config.cluster_url.to_string();
        let _inside = runtime.enter();
        let client = Client::try_from(config)
            .map_err(|error| Failure::Usage(format!("the kubeconfig cannot be used: {error}")))?;
        Ok(Self { client, url, request: args.request_timeout, runtime })
    }

    /// The namespace of the kubeconfig's context.
    pub(crate) fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// All lists of a scope, as a snapshot holds them; only one namespace of them, if it is named.
    pub(crate) fn gather(
        &self,
        scope: Scope,
        namespace: Option<&str>,
    ) -> Result<Map<String, Json>, Failure> {
        let whole = self.request.saturating_mul(WHOLE);
        let lists = async {
            let mut lists = Map::new();
            lists.insert("now".to_owned(), Timestamp::now().to_string().into());
            for kind in scope.kinds() {
                let items = self.list(kind, namespace).await?;
                let list = lists.entry(kind.list).or_insert_with(|| Json::Array(Vec::new()));
                if let Json::Array(list) = list {
                    list.extend(items);
                }
            }
            Ok(lists)
        };
        self.within(whole, lists)
    }

    /// All objects of a kind, in one namespace or in all.
    pub(crate) fn objects(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
    ) -> Result<Vec<Json>, Failure> {
        self.within(self.request.saturating_mul(WHOLE), self.list(kind, namespace))
    }

    fn within<T>(
        &self,
        time: Duration,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.runtime.block_on(async {
            tokio::time::timeout(time, work).await.unwrap_or_else(|_| {
                Err(Failure::Wrong(format!(
                    "the cluster's objects were not listed within {} s: raise --request-timeout",
                    time.as_secs()
                )))
            })
        })
    }

    async fn list(&self, kind: &Kind, namespace: Option<&str>) -> Result<Vec<Json>, Failure> {
        for version in kind.at {
            if let Some(mut items) = self.pages(kind, version, namespace).await? {
                for item in &mut items {
                    prune(item, kind, version);
                }
                return Ok(items);
            }
        }
        let version = kind.at.first().copied().unwrap_or_default();
        match kind.need {
            Need::May => {}
            Need::Ours => note(format_args!(
                "this cluster has no {} of {version}: install them with kubectl apply --server-side -f deploy/crds",
                kind.plural
            )),
            Need::Must => {
                return Err(Failure::Wrong(format!(
                    "{} does not serve {}: is it a Kubernetes API server?",
                    self.url, kind.plural
                )));
            }
        }
        Ok(Vec::new())
    }

    /// All pages; none if the cluster does not know such objects.
    async fn pages(
        &self,
        kind: &Kind,
        version: &str,
        namespace: Option<&str>,
    ) -> Result<Option<Vec<Json>>, Failure> {
        let path = Request::new(kind.path(version, namespace));
        let mut again = 0;
        let mut items = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        for _ in 0..PAGES {
            let request = match kind.fields {
                ListedFields::All => path.list(&params),
                ListedFields::Names | ListedFields::Owners => path.list_metadata(&params),
            };
            let request = request.map_err(|error| self.failed(kind, &error))?;
            let answer = tokio::time::timeout(self.request, self.client.request::<Page>(request));
            let page = match answer.await {
                Ok(Ok(page)) => page,
                Ok(Err(Error::Api(status))) if status.code == 404 => return Ok(None),
                // The first pages are too old to go on from: begin again.
                Ok(Err(Error::Api(status))) if status.code == 410 && again < AGAIN => {
                    again += 1;
                    items.clear();
                    params.continue_token = None;
                    continue;
                }
                Ok(Err(Error::Api(status))) => {
                    return self.refused(kind, status.code, &status.message);
                }
                Ok(Err(error)) => return Err(self.failed(kind, &error)),
                Err(_) => {
                    let late = format!(
                        "no answer within {} s; raise --request-timeout",
                        self.request.as_secs()
                    );
                    return Err(self.failed(kind, &late));
                }
            };
            items.extend(page.items.unwrap_or_default());
            match page.metadata.more.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(Some(items)),
            }
        }
        Err(self.failed(kind, &format!("there are more than {} pages", PAGES)))
    }

    fn refused(&self, kind: &Kind, code: u16, message: &str) -> Result<Option<Vec<Json>>, Failure> {
        let plural = kind.plural;
        match code {
            401 => Err(Failure::Wrong(format!(
                "{} does not know you: {message}; log in, or name another --context",
                self.url
            ))),
            // What only helps to find things may be missing.
            403 if kind.fields == ListedFields::Owners => Ok(None),
            403 => Err(Failure::Forbidden(format!(
                "you may not list {plural}: {message}; have the ClusterRole of deploy/ctl/role.yaml bound to you, or \
                 let somebody who may run `musterctl snapshot --file FILE` and use -f FILE"
            ))),
            _ => Err(self.failed(kind, &message)),
        }
    }

    fn failed(&self, kind: &Kind, error: &dyn Display) -> Failure {
        Failure::Wrong(format!(
            "{} cannot be listed at {}: {error}; does kubectl cluster-info work?",
            kind.plural, self.url
        ))
    }
}

async fn settings(args: &ClusterArgs) -> Result<Config, Failure> {
    let options =
        KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
    let remedy =
        "name a kubeconfig with --kubeconfig, a context with --context, or a snapshot with -f";
    let unusable =
        |error: &dyn Display| Failure::Usage(format!("no cluster to ask: {error}; {remedy}"));
    if let Some(path) = &args.kubeconfig {
        let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
        return Config::from_custom_kubeconfig(file, &options)
            .await
            .map_err(|error| unusable(&error));
    }
    match Config::from_kubeconfig(&options).await {
        Ok(config) => Ok(config),
        // In a pod there is no kubeconfig, but a service account.
        Err(error) if args.context.is_none() => Config::incluster().map_err(|_| unusable(&error)),
        Err(error) => Err(unusable(&error)),
    }
}
