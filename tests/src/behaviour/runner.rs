//! Runs cases on one server: each in a namespace of its own, several at once, each with a time limit.

use std::time::Duration;

use futures::{StreamExt as _, stream};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::{
    case::{Case, CaseStep, Ignore, Table},
    exchange::{Answer, Ask},
    expect::shortcomings,
    hooks::Hooks,
    names::Names,
    transcript::Transcript,
};

/// Cases that run at the same time.
const AT_ONCE: usize = 8;
/// How long one case may take, beside its patience.
const CASE_LIMIT: Duration = Duration::from_secs(60);
/// How long a step with `retry` is repeated unless told otherwise. A controller may have much to do before it.
const PATIENCE: Duration = Duration::from_secs(60);
/// The length of `${large}`: more than a server takes.
const LARGE: usize = 4 << 20;
/// How long a fresh namespace may take to get its default service account.
const ACCOUNT_LIMIT: Duration = Duration::from_secs(5);

/// A server, and the webhooks that it may call.
pub struct Target {
    client: kube::Client,
    hooks: Hooks,
    /// How long a step with `retry` is repeated.
    patience: Duration,
    /// Namespaces of cases that have ended.
    namespaces: Mutex<Vec<String>>,
}

/// How one case ended.
#[derive(Clone, Debug)]
pub struct CaseOutcome {
    /// The file's area.
    pub area: String,
    /// The case's name.
    pub name: String,
    /// What was expected and did not happen; empty if the case passed.
    pub failures: Vec<String>,
    /// What the server said.
    pub transcript: Transcript,
    /// How long it took.
    pub took: Duration,
}

/// A case under way.
struct Run<'a> {
    target: &'a Target,
    names: Names,
    transcript: Transcript,
    ignore: &'a [Ignore],
    /// Paths of cluster-scoped objects to delete at the end.
    created: Vec<String>,
    failures: Vec<String>,
}

// === impl Target ===

impl Target {
    /// A server to run cases on. The configuration's own retries are switched off: a case wants the first answer.
    pub async fn new(mut config: kube::Config) -> anyhow::Result<Target> {
        config.default_retry = false;
        Target::with_client(kube::Client::try_from(config)?).await
    }

    /// A server behind a client.
    pub async fn with_client(client: kube::Client) -> anyhow::Result<Target> {
        let (hooks, namespaces) = (Hooks::start().await?, Mutex::default());
        Ok(Target { client, hooks, patience: PATIENCE, namespaces })
    }

    /// How long a step with `retry` is repeated.
    pub fn patience(self, patience: Duration) -> Target {
        Target { patience, ..self }
    }

    /// Runs every case whose area, name or file contains `filter`, and returns the outcomes in the table's order;
    /// `each` sees them as they come.
    pub async fn run(
        &self,
        tables: &[Table],
        filter: &str,
        each: impl Fn(&CaseOutcome),
    ) -> Vec<CaseOutcome> {
        let mut shared: Vec<Run<'_>> = Vec::new();
        let mut chosen = Vec::new();
        for table in tables {
            let cases: Vec<&Case> =
                table.cases.iter().filter(|case| table.wants(case, filter)).collect();
            if cases.is_empty() {
                continue;
            }
            let run = self.share(table).await;
            for case in cases {
                chosen.push((table, case, run.names.clone(), run.failures.clone()));
            }
            shared.push(run);
        }
        let outcomes = stream::iter(chosen)
            .map(|(table, case, names, failures)| self.case(table, case, names, failures))
            .buffered(AT_ONCE)
            .inspect(|outcome| each(outcome))
            .collect()
            .await;
        for run in shared {
            run.clean_up().await;
        }
        // Only now: a controller that empties hundreds of namespaces has no time for those that cases wait for.
        for namespace in self.namespaces.lock().await.drain(..) {
            self.remove(&format!("/api/v1/namespaces/{namespace}")).await;
        }
        outcomes
    }

    async fn remove(&self, path: &str) {
        if let Err(error) = request("DELETE", path, None).send(&self.client).await {
            tracing::warn!(path, "not cleaned up: {error:#}");
        }
    }

    /// Runs the steps that the cases of a file share.
    async fn share(&self, table: &Table) -> Run<'_> {
        let mut run = Run::new(self, &[]);
        for (name, value) in &table.vars {
            run.names.set(name, value.as_str());
        }
        run.names.set("shared", suffix());
        let done = timeout(CASE_LIMIT + self.patience, run.steps(&table.shared)).await;
        if done.is_err() {
            run.failures.push("the shared steps did not end".to_owned());
        }
        run
    }

    async fn case(
        &self,
        table: &Table,
        case: &Case,
        names: Names,
        shared_failures: Vec<String>,
    ) -> CaseOutcome {
        let started = Instant::now();
        let mut run = Run::new(self, &case.ignore);
        run.names = names;
        run.failures.extend(shared_failures.iter().map(|failure| format!("shared {failure}")));
        let rand = suffix();
        let namespace = format!("b-{rand}");
        run.prepare(case, &namespace, &rand).await;
        let limit = CASE_LIMIT + self.patience;
        if run.failures.is_empty() && timeout(limit, run.steps(&case.steps)).await.is_err() {
            run.failures.push(format!("not done after {} s", limit.as_secs()));
        }
        let (transcript, failures) = (run.transcript.clone(), run.failures.clone());
        run.clean_up().await;
        self.namespaces.lock().await.push(namespace);
        let (area, name, took) = (table.area.clone(), case.name.clone(), started.elapsed());
        CaseOutcome { area, name, failures, transcript, took }
    }
}

impl Table {
    fn wants(&self, case: &Case, filter: &str) -> bool {
        let file = self.file.file_name().unwrap_or_default().to_string_lossy();
        self.area.contains(filter) || case.name.contains(filter) || file.contains(filter)
    }
}

// === impl Run ===

impl<'a> Run<'a> {
    fn new(target: &'a Target, ignore: &'a [Ignore]) -> Run<'a> {
        let (names, transcript) = (Names::default(), Transcript::default());
        Run { target, names, transcript, ignore, created: Vec::new(), failures: Vec::new() }
    }

    /// Makes the namespace and the names of a case.
    async fn prepare(&mut self, case: &Case, namespace: &str, rand: &str) {
        let hooks = &self.target.hooks;
        self.names.set("ns", namespace);
        self.names.set("rand", rand);
        self.names.set("webhooks", format!("{}/{rand}", hooks.url()));
        self.names.set("ca", hooks.ca_bundle());
        self.names.set("large", "x".repeat(LARGE));
        self.transcript.call(namespace, "<ns>");
        self.transcript.call(rand, "<rand>");
        self.transcript.call(&self.names.get("shared"), "<shared>");
        self.transcript.call(&hooks.url(), "<webhooks>");
        self.transcript.call(hooks.ca_bundle(), "<ca>");
        for (name, reply) in &case.webhooks {
            let mut reply = reply.clone();
            let value = |value: &Value| self.names.fill_value(value).unwrap_or_default();
            reply.patch = reply.patch.as_ref().map(value);
            hooks.serve(&format!("{rand}/{name}"), reply).await;
        }
        let body =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } });
        let ask = request("POST", "/api/v1/namespaces", Some(&body));
        match ask.send(&self.target.client).await {
            Ok(answer) if answer.code == 201 => {}
            Ok(answer) => self.failures.push(format!("no namespace: {}", answer.body)),
            Err(error) => self.failures.push(format!("no namespace: {error:#}")),
        }
        let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        let deadline = Instant::now() + ACCOUNT_LIMIT.min(self.target.patience);
        while Instant::now() < deadline {
            match request("GET", &account, None).send(&self.target.client).await {
                Ok(answer) if answer.code == 200 => return,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// Runs steps until one fails.
    async fn steps(&mut self, steps: &[CaseStep]) {
        for (index, step) in steps.iter().enumerate() {
            let wrong = match self.step(step).await {
                Ok(wrong) => wrong,
                Err(error) => vec![format!("{error:#}")],
            };
            let title = step
                .target()
                .map_or_else(String::new, |(method, path, _)| format!("{method} {path}"));
            let number = index + 1;
            self.failures
                .extend(wrong.iter().map(|wrong| format!("step {number} ({title}): {wrong}")));
            if !self.failures.is_empty() {
                return;
            }
        }
    }

    async fn step(&mut self, step: &CaseStep) -> anyhow::Result<Vec<String>> {
        if let Some(seconds) = step.pause {
            sleep(Duration::from_secs_f64(seconds)).await;
            return Ok(Vec::new());
        }
        if let Some(hook) = &step.calls {
            return self.look_at_calls(step, hook).await;
        }
        let ask = self.ask(step)?;
        let expect = self.names.fill_expect(&step.expect)?;
        let deadline = Instant::now() + self.target.patience;
        let mut pause = Duration::from_millis(20);
        let (answer, wrong) = loop {
            let answer = match step.watch {
                Some(_) => self.watch(step, &ask).await?,
                None => ask.send(&self.target.client).await?,
            };
            self.note_created(&ask, &answer);
            let wrong = shortcomings(&expect, &answer);
            if !step.retry || wrong.is_empty() || Instant::now() > deadline {
                break (answer, wrong);
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        };
        if !step.quiet {
            self.transcript.record(&ask, &answer, self.ignore);
        }
        if wrong.is_empty() {
            self.names.capture(step, &answer.body)?;
        }
        Ok(wrong)
    }

    async fn look_at_calls(&mut self, step: &CaseStep, hook: &str) -> anyhow::Result<Vec<String>> {
        let path = format!("{}/{hook}", self.names.get("rand"));
        let body = self.target.hooks.calls(&path).await;
        self.transcript.record_calls(hook, &body, self.ignore);
        let answer = Answer { code: 200, body, ..Answer::default() };
        self.names.capture(step, &answer.body)?;
        Ok(shortcomings(&self.names.fill_expect(&step.expect)?, &answer))
    }

    async fn watch(&mut self, step: &CaseStep, ask: &Ask) -> anyhow::Result<Answer> {
        let response = ask.open(&self.target.client).await?;
        let collect = Answer::watch(response, step.until, step.count);
        let (answer, ()) = tokio::join!(collect, Box::pin(self.steps(&step.meanwhile)));
        answer
    }

    fn ask(&self, step: &CaseStep) -> anyhow::Result<Ask> {
        let (method, path, usual) = step.target().unwrap_or(("GET", "/", "application/json"));
        let body = step.body.as_ref().map(|body| self.names.fill_value(body)).transpose()?;
        let mut ask = request(method, &self.names.fill(path)?, body.as_ref());
        if let Some(text) = &step.text {
            ask.body = self.names.fill(text)?.into_bytes();
        }
        ask.headers.retain(|(name, _)| name != "content-type");
        if !ask.body.is_empty() {
            let kind = step.content_type.as_deref().unwrap_or(usual);
            ask.headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        if let Some(accept) = &step.accept {
            ask.headers.retain(|(name, _)| name != "accept");
            ask.headers.push(("accept".to_owned(), accept.clone()));
        }
        if let Some(who) = &step.impersonate {
            ask.headers.push(("impersonate-user".to_owned(), self.names.fill(&who.user)?));
            for group in &who.groups {
                ask.headers.push(("impersonate-group".to_owned(), self.names.fill(group)?));
            }
        }
        for (name, value) in &step.headers {
            ask.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            ask.headers.push((name.clone(), self.names.fill(value)?));
        }
        Ok(ask)
    }

    /// Remembers cluster-scoped objects, which no namespace takes away.
    fn note_created(&mut self, ask: &Ask, answer: &Answer) {
        let created =
            StatusCode::CREATED == answer.code && answer.body.pointer("/metadata/uid").is_some();
        if !created || ask.path.contains("/namespaces/") || ask.path.contains("dryRun") {
            return;
        }
        let path = ask.path.split('?').next().unwrap_or_default();
        let name =
            answer.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let path = if ask.method == "POST" { format!("{path}/{name}") } else { path.to_owned() };
        self.created.push(path);
    }

    async fn clean_up(self) {
        for path in self.created.iter().rev() {
            self.target.remove(path).await;
        }
    }
}

fn request(method: &str, path: &str, body: Option<&Value>) -> Ask {
    let headers = [
        ("accept", "application/json"),
        ("user-agent", "behaviour/1"),
        ("content-type", "application/json"),
    ];
    Ask {
        method: method.to_owned(),
        path: path.to_owned(),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        body: body.map(|body| body.to_string().into_bytes()).unwrap_or_default(),
    }
}

/// Six letters that make a name unlike all others.
fn suffix() -> String {
    (0..6).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect()
}
