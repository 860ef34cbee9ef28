//! The table as data: files of cases, their steps and what each step expects.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

/// One file of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The area that every case of this file belongs to.
    pub area: String,
    /// Names for strings that many cases use, such as the path of a collection.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// Steps that run once before the cases, such as creating a CRD that all of them use.
    #[serde(default)]
    pub shared: Vec<CaseStep>,
    /// The cases of the table.
    pub cases: Vec<Case>,
    /// Where the file is.
    #[serde(skip)]
    pub file: PathBuf,
}

/// One case: steps in a namespace of its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// A sentence that says what must hold.
    pub name: String,
    /// The requests, in order.
    pub steps: Vec<CaseStep>,
    /// Webhooks that the runner serves for this case, by name.
    #[serde(default)]
    pub webhooks: BTreeMap<String, Reply>,
    /// What may differ between two servers.
    #[serde(default)]
    pub ignore: Vec<Ignore>,
}

/// A place of the transcript that may differ between two servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ignore {
    /// A JSON pointer into a response body; `*` stands for any one key or index.
    pub path: String,
    /// Why the difference is allowed.
    pub why: String,
}

/// How a webhook of a case answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Reply {
    /// The request is refused.
    pub deny: bool,
    /// The `status` of the response.
    pub status: Option<Value>,
    /// A JSON Patch.
    pub patch: Option<Value>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// The answer comes this late.
    pub delay_ms: u64,
    /// The HTTP status, 200 unless given.
    pub code: Option<u16>,
    /// This text is sent in place of an AdmissionReview.
    pub raw: Option<String>,
}

/// A user to impersonate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Impersonate {
    /// The user's name.
    pub user: String,
    /// The user's groups.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// Where the collection of a watch's events ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// After as many events as `count` says.
    #[default]
    Count,
    /// After the bookmark that ends the initial events.
    InitialEventsEnd,
    /// After any bookmark.
    Bookmark,
    /// When the server ends the stream.
    End,
}

/// One step: a request, a watch, or a look at a webhook's calls. Exactly one of the first twelve fields is set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct CaseStep {
    /// GET this path.
    pub get: Option<String>,
    /// POST to this path.
    pub post: Option<String>,
    /// PUT to this path.
    pub put: Option<String>,
    /// DELETE this path.
    pub delete: Option<String>,
    /// PATCH this path with server-side apply.
    pub apply: Option<String>,
    /// PATCH this path with a merge patch.
    pub merge: Option<String>,
    /// PATCH this path with a strategic merge patch.
    pub strategic: Option<String>,
    /// PATCH this path with a JSON patch.
    pub json: Option<String>,
    /// Any other request: `METHOD path`.
    pub request: Option<String>,
    /// Watch this path.
    pub watch: Option<String>,
    /// Look at the requests that a webhook of this case has seen.
    pub calls: Option<String>,
    /// Seconds to let pass. Only where time itself is what the case is about.
    pub pause: Option<f64>,

    /// The body, sent as JSON.
    pub body: Option<Value>,
    /// The body, sent as it is.
    pub text: Option<String>,
    /// The content type, where it is not the usual one of the verb.
    pub content_type: Option<String>,
    /// The accepted media type, JSON unless given.
    pub accept: Option<String>,
    /// Headers beside those that every request has.
    pub headers: BTreeMap<String, String>,
    /// Ask as somebody else.
    #[serde(rename = "as")]
    pub impersonate: Option<Impersonate>,

    /// Repeat the request until the expectation holds.
    pub retry: bool,
    /// Leave the step out of the transcript: it only waits for something.
    pub quiet: bool,

    /// Where a watch ends.
    pub until: Until,
    /// How many events a watch collects.
    pub count: usize,
    /// Steps that run while the watch is open.
    #[serde(rename = "while")]
    pub meanwhile: Vec<CaseStep>,

    /// What must hold of the answer.
    pub expect: Expect,
    /// Values to keep: name to JSON pointer.
    pub capture: BTreeMap<String, String>,
}

/// What must hold of an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The HTTP status; any 2xx unless given.
    pub code: Option<u16>,
    /// A part of the body: objects may have more keys, lists have the same length, `~x` is a regular expression.
    pub body: Option<Value>,
    /// JSON pointers that lead nowhere.
    pub absent: Vec<String>,
    /// JSON pointers and values that they must not have.
    pub differs: BTreeMap<String, String>,
    /// A part of the Status message; `~x` is a regular expression.
    pub message: Option<String>,
    /// All of managedFields: `manager operation [subresource]` to its fields.
    pub managers: Option<BTreeMap<String, Value>>,
    /// All warnings, each as a part of the text.
    pub warnings: Option<Vec<String>>,
    /// The events of a watch, each matched like `body`.
    pub events: Option<Vec<Value>>,
}

// === impl Table ===

impl Table {
    /// Reads every `.yaml` file below `dir`, in the order of their names.
    pub fn load_all(dir: &Path) -> anyhow::Result<Vec<Table>> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
            .with_context(|| format!("reading {}", dir.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|ext| ext == "yaml"))
            .collect();
        files.sort();
        let tables: Vec<Table> =
            files.iter().map(|file| Table::load(file)).collect::<anyhow::Result<_>>()?;
        let mut seen = BTreeMap::new();
        for table in &tables {
            for case in &table.cases {
                if let Some(other) = seen.insert(case.name.clone(), &table.file) {
                    let (here, there) = (table.file.display(), other.display());
                    bail!("case {:?} is in {here} and in {there}", case.name);
                }
            }
        }
        Ok(tables)
    }

    /// Reads one file.
    pub fn load(file: &Path) -> anyhow::Result<Table> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let options = serde_saphyr::options! { strict_booleans: true };
        let mut table: Table = serde_saphyr::from_str_with_options(&text, options)
            .with_context(|| format!("in {}", file.display()))?;
        table.file = file.to_path_buf();
        for case in &table.cases {
            for step in &case.steps {
                step.check().with_context(|| format!("in case {:?}", case.name))?;
            }
        }
        Ok(table)
    }
}

// === impl CaseStep ===

impl CaseStep {
    /// Method, path and usual content type of a request step.
    pub fn target(&self) -> Option<(&str, &str, &str)> {
        let json = "application/json";
        let patches = [
            (&self.apply, "application/apply-patch+yaml"),
            (&self.merge, "application/merge-patch+json"),
            (&self.strategic, "application/strategic-merge-patch+json"),
            (&self.json, "application/json-patch+json"),
        ];
        let plain = [
            (&self.get, "GET"),
            (&self.watch, "GET"),
            (&self.post, "POST"),
            (&self.put, "PUT"),
            (&self.delete, "DELETE"),
        ];
        if let Some((method, path)) = self.request.as_deref().and_then(|r| r.split_once(' ')) {
            return Some((method, path, json));
        }
        let patch =
            patches.iter().find_map(|(path, kind)| Some(("PATCH", path.as_deref()?, *kind)));
        patch.or_else(|| {
            plain.iter().find_map(|(path, method)| Some((*method, path.as_deref()?, json)))
        })
    }

    fn check(&self) -> anyhow::Result<()> {
        let paths = [
            &self.get,
            &self.post,
            &self.put,
            &self.delete,
            &self.apply,
            &self.merge,
            &self.strategic,
            &self.json,
            &self.request,
            &self.watch,
            &self.calls,
        ];
        let set = paths.iter().filter(|path| path.is_some()).count();
        if set + usize::from(self.pause.is_some()) != 1 {
            bail!("a step needs exactly one request, watch, calls or pause: {self:?}");
        }
        if self.watch.is_some()
            && self.until == Until::Count
            && self.count == 0
            && self.expect.code.is_none()
        {
            bail!("a watch needs count, until or an expected code: {self:?}");
        }
        self.meanwhile.iter().try_for_each(CaseStep::check)
    }
}
