//! How a sandbox ends, and whom it does not serve.

use http::{Method, Request, StatusCode};
use muster_sandbox::{InProcess, Sandbox};
use tower::ServiceExt;

use super::caller::*;
use super::wire::Wire;

#[tokio::test]
async fn a_dropped_sandbox_gives_its_port_back() {
    let sandbox = bare().await;
    let port: u16 = sandbox.url().rsplit(':').next().unwrap().parse().unwrap();
    let open = Wire::open(&sandbox).await;
    drop(sandbox);
    assert_eq!(open.rest().await, "", "the open connection ends without an answer");
    let again = async {
        loop {
            if let Ok(sandbox) = Sandbox::builder().controllers(None).port(port).start().await {
                return sandbox;
            }
            tokio::task::yield_now().await;
        }
    };
    let again = tokio::time::timeout(PATIENCE, again).await.unwrap();
    assert!(again.url().ends_with(&format!(":{port}")));
}

#[tokio::test]
async fn a_web_page_is_refused_whatever_it_asks() {
    let sandbox = bare().await;
    for (method, path) in [
        (Method::GET, "/api/v1/pods"),
        (Method::POST, "/api/v1/namespaces"),
        (Method::GET, "/version"),
    ] {
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header("origin", "https://example.com")
            .body(String::new())
            .unwrap();
        let service = InProcess::new(sandbox.api().clone());
        let answer = service.oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{method} {path}");
    }
}
