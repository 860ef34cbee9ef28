//! One admission review, from bytes to bytes. Pure, but for what an inquirer reads.

use std::panic::{AssertUnwindSafe, catch_unwind};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionReview, META_API_VERSION_V1, META_KIND};
use muster_kube::Namespace;
use serde_json::{Value, json};

use super::{Answer, Answerer, Handler, Request};

/// The API server cuts longer warnings off.
const LONGEST_WARNING: usize = 256;

/// And may drop more.
const MOST_WARNINGS: usize = 16;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    /// It is no review.
    #[error("this is no AdmissionReview of {META_API_VERSION_V1}: {0}")]
    Malformed(String),
    /// The handler has a fault.
    #[error("the webhook failed at this object; the coordinator's log says more")]
    Panicked,
}

/// An answer with its outcome.
type Answered = Result<(Vec<u8>, &'static str), Unanswered>;

/// Asks whoever answers.
pub async fn ask(answerer: &Answerer, body: &[u8]) -> Answered {
    match answerer {
        Answerer::Handler(handler) => review(handler, body),
        Answerer::Inquirer(inquirer) => {
            let request = read(body)?;
            let uid = request.uid.clone();
            let asked = async { inquirer(request).await };
            written(&uid, AssertUnwindSafe(asked).catch_unwind().await)
        }
    }
}

/// Asks a handler.
pub fn review(handler: &Handler, body: &[u8]) -> Answered {
    let request = read(body)?;
    let asked = catch_unwind(AssertUnwindSafe(|| handler(&request)));
    written(&request.uid, asked)
}

fn written(uid: &str, asked: std::thread::Result<Answer>) -> Answered {
    // What the panic says is in the log by itself; it may hold parts of the object.
    let answer = asked.map_err(|_| Unanswered::Panicked)?;
    let outcome = answer.outcome();
    let response = write(uid, answer)?;
    Ok((response.to_string().into_bytes(), outcome))
}

fn read(body: &[u8]) -> Result<Request, Unanswered> {
    let malformed = |why: &str| Unanswered::Malformed(why.to_owned());
    let review: AdmissionReview<DynamicObject> =
        serde_json::from_slice(body).map_err(|error| Unanswered::Malformed(error.to_string()))?;
    if review.types.kind != META_KIND || review.types.api_version != META_API_VERSION_V1 {
        return Err(malformed("its apiVersion or kind is another"));
    }
    let request: Request = review.try_into().map_err(|_| malformed("it has no request"))?;
    // Whoever reaches the port can send a review: names in it become paths.
    let namespace = request.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    if let Some(Err(error)) = namespace.map(Namespace::parse) {
        return Err(malformed(&error.to_string()));
    }
    match request.uid.is_empty() {
        true => Err(malformed("its request has no uid")),
        false => Ok(request),
    }
}

fn write(uid: &str, answer: Answer) -> Result<Value, Unanswered> {
    let mut response = json!({ "uid": uid, "allowed": true });
    let warnings = match answer {
        Answer::Allow { warnings } => warnings,
        Answer::Patch { patch, warnings } => {
            // A patch is made of JSON values: this does not fail.
            let patch = serde_json::to_vec(&patch).map_err(|_| Unanswered::Panicked)?;
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch).into();
            warnings
        }
        Answer::Deny { code, message } => {
            response["allowed"] = false.into();
            response["status"] = json!({ "status": "Failure", "code": code, "message": message });
            Vec::new()
        }
    };
    if !warnings.is_empty() {
        let short = |text: String| text.chars().take(LONGEST_WARNING).collect::<String>();
        let warnings: Vec<_> = warnings.into_iter().take(MOST_WARNINGS).map(short).collect();
        response["warnings"] = warnings.into();
    }
    Ok(json!({ "apiVersion": META_API_VERSION_V1, "kind": META_KIND, "response": response }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::future::BoxFuture;
    use json_patch::Patch;
    use proptest::prelude::*;

    use super::super::Inquirer;
    use super::*;

    fn asked(uid: &str) -> Value {
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": uid,
                "kind": { "group": "", "version": "v1", "kind": "Pod" },
                "resource": { "group": "", "version": "v1", "resource": "pods" },
                "operation": "CREATE", "userInfo": {}, "namespace": "ns",
                "object": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" } },
                "oldObject": null,
            },
        })
    }

    fn answered(answer: Answer) -> (Value, &'static str) {
        let handler: Handler = Arc::new(move |_| answer.clone());
        let (bytes, outcome) = review(&handler, asked("u1").to_string().as_bytes()).unwrap();
        (serde_json::from_slice(&bytes).unwrap(), outcome)
    }

    #[test]
    fn every_answer_has_the_uid_and_says_what_the_handler_said() {
        let warnings = vec!["w".to_owned()];
        let patch: Patch =
            serde_json::from_value(json!([{ "op": "add", "path": "/a", "value": 1 }])).unwrap();
        let encoded = STANDARD.encode(serde_json::to_vec(&patch).unwrap());
        let cases = [
            (Answer::allow(), "allowed", json!({ "uid": "u1", "allowed": true })),
            (
                Answer::Patch { patch, warnings },
                "patched",
                json!({
                    "uid": "u1", "allowed": true, "patchType": "JSONPatch", "patch": encoded,
                    "warnings": ["w"],
                }),
            ),
            (
                Answer::Deny { code: 422, message: "no".to_owned() },
                "denied",
                json!({
                    "uid": "u1", "allowed": false,
                    "status": { "status": "Failure", "code": 422, "message": "no" },
                }),
            ),
        ];
        for (answer, outcome, expected) in cases {
            let (review, said) = answered(answer);
            assert_eq!((&review["response"], said), (&expected, outcome));
            assert_eq!(review["kind"], "AdmissionReview");
        }
    }

    #[test]
    fn the_handler_sees_the_object() {
        let handler: Handler = Arc::new(|request| {
            let pod = request.object.as_ref().unwrap();
            assert_eq!(pod.metadata.name.as_deref(), Some("p"));
            assert_eq!(request.namespace.as_deref(), Some("ns"));
            Answer::allow()
        });
        assert!(review(&handler, asked("u1").to_string().as_bytes()).is_ok());
    }

    #[test]
    fn warnings_are_bounded() {
        let (review, _) = answered(Answer::Allow { warnings: vec!["ü".repeat(1000); 100] });
        let warnings = review["response"]["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), MOST_WARNINGS);
        assert_eq!(warnings[0].as_str().unwrap().chars().count(), LONGEST_WARNING);
    }

    #[test]
    fn what_is_no_review_is_malformed() {
        let handler: Handler = Arc::new(|_| Answer::allow());
        let without = |pointer: &str, value: Value| {
            let mut review = asked("u1");
            *review.pointer_mut(pointer).unwrap() = value;
            review.to_string()
        };
        let bad = [
            String::new(),
            "{".to_owned(),
            "[]".to_owned(),
            "[".repeat(100_000),
            without("/kind", json!("Pod")),
            without("/apiVersion", json!("admission.k8s.io/v1beta1")),
            without("/request", json!(null)),
            without("/request/uid", json!("")),
            without("/request/operation", json!("SING")),
            without("/request/object", json!(7)),
        ];
        for body in bad {
            let error = review(&handler, body.as_bytes()).unwrap_err();
            assert!(matches!(error, Unanswered::Malformed(_)), "{body}: {error}");
        }
    }

    #[test]
    fn a_handler_that_panics_is_an_error() {
        let handler: Handler = Arc::new(|_| panic!("a fault"));
        let error = review(&handler, asked("u1").to_string().as_bytes()).unwrap_err();
        assert!(matches!(error, Unanswered::Panicked));
    }

    #[tokio::test]
    async fn who_reads_first_answers_the_same_and_may_panic_as_well() {
        let asked = asked("u1").to_string();
        let inquirer: Inquirer = Arc::new(|request| {
            Box::pin(async move {
                tokio::task::yield_now().await;
                assert_eq!(request.namespace.as_deref(), Some("ns"));
                Answer::Deny { code: 403, message: "no".to_owned() }
            })
        });
        let (bytes, outcome) = ask(&Answerer::Inquirer(inquirer), asked.as_bytes()).await.unwrap();
        let review: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&review["response"]["uid"], outcome), (&json!("u1"), "denied"));
        let at_once = |_| -> BoxFuture<'static, Answer> { panic!("at once") };
        let later = |_| async { panic!("later") }.boxed();
        for inquirer in [Arc::new(at_once) as Inquirer, Arc::new(later)] {
            let error = ask(&Answerer::Inquirer(inquirer), asked.as_bytes()).await.unwrap_err();
            assert!(matches!(error, Unanswered::Panicked));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, at in 0usize..400, byte: u8) {
            let handler: Handler = Arc::new(|_| Answer::allow());
            let _ = review(&handler, &bytes);
            let mut body = asked("u1").to_string().into_bytes();
            let at = at % body.len();
            body[at] = byte;
            let _ = review(&handler, &body);
        }
    }
}
