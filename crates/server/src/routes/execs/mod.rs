//! Execs: commands that run in a sandbox.
//!
//! All of it needs the scope `run`, also to look: what commands print is their user's.

mod act;
mod attach;
mod events;
mod look;
mod output;
mod start;

pub(super) use start::wants_events;

use crate::app::App;
use crate::error::Failure;
use crate::extract::{Query, parameter, wrong};
use atoll_api::error::ErrorCode;
use atoll_api::exec::{
    AttachAction, AttachEvent, CancelExec, Dropped, Exec, ExecResult, ExecState, OutputEvent,
    WAIT_MS_MAX,
};
use atoll_api::id::ExecId;
use atoll_api::sandbox::HoldCause;
use atoll_engine::Inside;
use atoll_engine::inside::Held;
use atoll_engine::inside::exec::{Collected, Following, Piece};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;

/// How long the end of an exec may take to arrive that is known to have ended.
const END_WITHIN: Duration = Duration::from_secs(10);

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(start::routes())
        .merge(look::routes())
        .merge(events::routes())
        .merge(output::routes())
        .merge(attach::routes())
        .merge(act::routes())
}

/// What is in a stream only, for the description.
pub(super) fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((OutputEvent::name().into_owned(), OutputEvent::schema()));
    OutputEvent::schemas(schemas);
    schemas.push((Dropped::name().into_owned(), Dropped::schema()));
    schemas.push((AttachEvent::name().into_owned(), AttachEvent::schema()));
    AttachEvent::schemas(schemas);
    schemas.push((AttachAction::name().into_owned(), AttachAction::schema()));
    AttachAction::schemas(schemas);
}

/// The exec that a path names.
struct TargetExec(ExecId);

impl FromRequestParts<Arc<App>> for TargetExec {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Failure> {
        let text = parameter(parts, app, "exec").await?;
        text.parse().map(Self).map_err(|error| wrong("exec", &error))
    }
}

/// Holds a sandbox awake for a client that follows an exec in it.
async fn hold(inside: &Inside, id: ExecId) -> Result<Held, Failure> {
    Ok(inside.hold(HoldCause::Stream { name: format!("exec {id}") }).await?)
}

/// Takes `wait_ms` from a query.
fn wait_ms(query: &mut Query) -> Result<Option<Duration>, Failure> {
    let wait_ms: Option<u64> = query.one("wait_ms")?;
    if wait_ms.is_some_and(|ms| ms > WAIT_MS_MAX) {
        return Err(Failure::field("wait_ms", format!("wait_ms is more than {WAIT_MS_MAX}")));
    }
    Ok(wait_ms.map(Duration::from_millis))
}

/// Waits for an exec to end, until a time or the server's end, and gives what it printed.
async fn result(
    app: &App,
    mut following: Following,
    wait: Duration,
    is_killed_then: bool,
) -> Result<ExecResult, Failure> {
    let mut collected = Collected::new(following.keep_bytes());
    let (mut until, mut is_last) = (Instant::now() + wait, false);
    let mut closing = app.closing.subscribe();
    let exec = loop {
        let next = tokio::select! {
            next = timeout_at(until, following.next()) => next,
            // It is seen once; then the end of what is there is waited for.
            _ = closing.wait_for(|&is_closing| is_closing), if !is_last => {
                until = Instant::now();
                continue;
            }
        };
        match next {
            Ok(Ok(Some(Piece::Ended(exec)))) => break *exec,
            Ok(Ok(Some(piece))) => collected.take(&piece),
            Ok(Ok(None)) => break following.exec().clone(),
            Ok(Err(error)) => {
                let told = error.to_api();
                if told.code != ErrorCode::Lost {
                    return Err(error.into());
                }
                tracing::warn!(%error, "an exec is lost");
                let exec = following.exec().clone();
                break Exec { state: ExecState::Lost, lost: Some(told), ended: None, ..exec };
            }
            Err(_) if is_last => break following.exec().clone(),
            Err(_) => {
                // How it is now; and where it has ended meanwhile, its end is to come.
                let id = following.exec().id;
                let inside = following.inside().clone();
                if is_killed_then {
                    let at_once = CancelExec { signal: None, grace_ms: Some(0) };
                    inside.cancel_exec(id, &at_once).await?;
                } else {
                    let exec = inside.exec(id).await?;
                    if exec.state == ExecState::Running {
                        break exec;
                    }
                }
                (until, is_last) = (Instant::now() + END_WITHIN, true);
            }
        }
    };
    let (stdout, stderr) = collected.finish();
    let denials = app.engine.denials_of(following.inside().id(), &exec).await;
    Ok(ExecResult { exec, stdout, stderr, denials })
}
