//! One report, from its request to the job's status.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Extension, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use muster_pipeline::report::{self, FIELD_MANAGER, LARGEST, PathError, Place, Report};
use muster_program::connections::Connection;
use tokio::time::timeout;

use super::said::Refused;
use super::{PATIENCE, Reports, metrics};
use crate::workloads::trainjob::kinds::Job;
use muster_serving::body::{self, Unread};

/// No token is longer.
const LONGEST_TOKEN: usize = 16 * 1024;

/// The answer to a request.
pub(super) async fn answer(
    State(reports): State<Arc<Reports>>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Response {
    let taken = timeout(PATIENCE, reports.take(request, &connection)).await.unwrap_or_else(|_| {
        let why = "the report took too long: try again";
        Err(Refused::new(StatusCode::SERVICE_UNAVAILABLE, why))
    });
    let response = match taken {
        Ok(report) => axum::Json(report).into_response(),
        Err(refused) => {
            let Refused { code, message } = &refused;
            tracing::debug!(code = code.as_u16(), "a report is refused: {message}");
            refused.response()
        }
    };
    let status = response.status().as_u16();
    reports.metrics.requests.get_or_create(&metrics::Status { status }).inc();
    response
}

// === impl Reports ===

impl Reports {
    /// Takes a report; what was understood of it.
    async fn take(&self, request: Request, connection: &Connection) -> Result<Report, Refused> {
        let path = request.uri().path();
        let place = match request.method() {
            &Method::POST => Place::of_path(path),
            _ => Err(PathError::Elsewhere),
        };
        let place = place.map_err(|why| {
            let why = format!("{} {path}: {why}", request.method());
            Refused::new(StatusCode::NOT_FOUND, why)
        })?;
        let header = request.headers().get(header::AUTHORIZATION);
        let token = header.and_then(|value| value.to_str().ok()).and_then(report::token);
        let token = token.filter(|token| token.len() <= LONGEST_TOKEN).map(str::to_owned);
        let Some(token) = token else {
            let why = "the request has no token: send Authorization: Bearer and what is in KUBEFLOW_TRAINER_SERVER_TOKEN";
            return Err(Refused::new(StatusCode::FORBIDDEN, why));
        };
        // Whose it is need not be asked.
        if request.body().size_hint().lower() > LARGEST as u64 {
            read(request.into_body()).await?;
            return Err(too_large());
        }
        // It is never closed.
        let _slot = self.slots.acquire().await.ok();
        authorize(&self.client, &place, token).await?;
        // From here on it makes room for nobody.
        let _working = connection.working();
        let body = read(request.into_body()).await?;
        let report = Report::read(&body).map_err(|why| undecodable(&why))?;
        if let Some(status) = &report.trainer_status {
            let api: Api<Job> = Api::namespaced(self.client.clone(), &place.namespace);
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let patch = Patch::Apply(place.application(status));
            let written = api.patch_status(&place.name, &params, &patch).await;
            written.map_err(|error| Refused::of(&error))?;
        }
        Ok(report)
    }
}

/// Whether a token may report for a job.
async fn authorize(client: &Client, place: &Place, token: String) -> Result<(), Refused> {
    let audience = place.audience();
    let spec = TokenReviewSpec { audiences: Some(vec![audience.clone()]), token: Some(token) };
    let review = TokenReview { spec, ..TokenReview::default() };
    let api: Api<TokenReview> = Api::all(client.clone());
    let reviewed = api.create(&PostParams::default(), &review).await.map_err(|error| {
        let why = format!("the token cannot be reviewed: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    })?;
    let believed = believed(reviewed.status.unwrap_or_default(), &audience, place);
    believed.map_err(|why| Refused::new(StatusCode::FORBIDDEN, why))
}

fn believed(status: TokenReviewStatus, audience: &str, place: &Place) -> Result<(), String> {
    if status.authenticated != Some(true) {
        return Err("the token is not valid here: it must be that of a pod of this job".to_owned());
    }
    // A server that does not know audiences has not checked this one.
    if !status.audiences.unwrap_or_default().iter().any(|one| one == audience) {
        return Err(format!("the token is not for the audience {audience}"));
    }
    let user = status.user.and_then(|user| user.username).unwrap_or_default();
    match place.may_be_told_by(&user) {
        true => Ok(()),
        false => Err(format!("the token is of no account of namespace {}", place.namespace)),
    }
}

async fn read(body: Body) -> Result<Bytes, Refused> {
    body::read(body, LARGEST).await.map_err(|error| match error {
        Unread::TooLarge => too_large(),
        Unread::Broken(error) => undecodable(&error.to_string()),
    })
}

fn too_large() -> Refused {
    let why = format!("a report has at most {LARGEST} bytes");
    Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why)
}

fn undecodable(why: &str) -> Refused {
    let why = format!("the report cannot be read: {why}");
    Refused::new(StatusCode::UNPROCESSABLE_ENTITY, why)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    #[test]
    fn a_token_counts_for_its_audience_and_namespace_alone() {
        let place = Place { namespace: "a".parse().unwrap(), name: "job".parse().unwrap() };
        let audience = place.audience();
        let status = |audiences: &[&str], name: &str| TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(audiences.iter().map(|one| (*one).to_owned()).collect()),
            user: Some(UserInfo { username: Some(name.to_owned()), ..UserInfo::default() }),
            error: None,
        };
        let account = "system:serviceaccount:a:default";
        assert_eq!(believed(status(&[&audience], account), &audience, &place), Ok(()));
        for (odd, word) in [
            (TokenReviewStatus::default(), "not valid"),
            (status(&[], account), "audience"),
            (status(&["api"], account), "audience"),
            (status(&[&audience], "system:serviceaccount:b:default"), "namespace a"),
            (status(&[&audience], "admin"), "namespace a"),
        ] {
            let why = believed(odd, &audience, &place).unwrap_err();
            assert!(why.contains(word), "{why}");
        }
    }
}
