//! A client that can read and nothing else.

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, service_fn};

/// The same API server, for watches, lists and discovery: whatever is not a GET fails here and never leaves the program.
pub(super) fn read_only(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if *request.method() != Method::GET {
                let (method, path) = (request.method(), request.uri().path());
                return Err(BoxError::from(format!("{method} {path}: this client only reads")));
            }
            client.send(request).await.map_err(BoxError::from)
        }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, DeleteParams};

    use super::*;

    #[tokio::test]
    async fn a_reader_reads_and_its_writes_never_leave_the_program() {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let server = service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;
            async move { Ok::<_, BoxError>(Response::new(Body::from(pod.as_bytes().to_vec()))) }
        });
        let pods: Api<Pod> = Api::namespaced(read_only(Client::new(server, "team")), "team");
        assert_eq!(pods.get("a").await.unwrap().metadata.name.as_deref(), Some("a"));
        let refused = pods.delete("a", &DeleteParams::default()).await.unwrap_err();
        assert!(muster_program::causes(&refused).contains("only reads"), "{refused:?}");
        assert_eq!(sent.load(Ordering::SeqCst), 1);
    }
}
