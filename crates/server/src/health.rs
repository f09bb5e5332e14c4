//! How the server is.
//!
//! A look costs a write to the disk and a listing of the process's descriptors, and
//! anybody may ask; so what was seen holds for a moment.

use crate::app::App;
use crate::config::Config;
use atoll_api::server::{Health, HealthCheck, HealthStatus};
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long what was seen holds.
const HOLDS: Duration = Duration::from_secs(1);

/// What is looked at, beside the engine.
pub(crate) struct Watched {
    /// Where the records are.
    folder: PathBuf,
    /// Whether the last creation found no room in the records.
    pub(crate) records_are_full: AtomicBool,
    seen: Mutex<Option<(Instant, Health)>>,
}

impl Watched {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, records_are_full: AtomicBool::new(false), seen: Mutex::default() }
    }
}

/// Looks, or gives what was seen a moment ago.
pub(crate) async fn look(app: &App) -> Health {
    let is_closing = *app.closing.borrow();
    // Those who ask meanwhile wait for the one look.
    let mut seen = app.watched.seen.lock().await;
    let recent = seen.as_ref().filter(|(at, _)| at.elapsed() < HOLDS && !is_closing);
    if let Some((_, health)) = recent {
        return health.clone();
    }
    let records = match app.engine.check_records().await {
        Ok(()) if app.watched.records_are_full.load(Ordering::Relaxed) => {
            Err((HealthStatus::Degraded, "no room is left for the records".to_owned()))
        }
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::error!(error = %error, "the records cannot be written");
            Err((HealthStatus::Failing, "the records cannot be written".to_owned()))
        }
    };
    let shutdown = if is_closing {
        Err((HealthStatus::Failing, "the server shuts down".to_owned()))
    } else {
        Ok(())
    };
    let checks: Vec<HealthCheck> = [
        ("audit", audit(app)),
        ("descriptors", descriptors(&app.config)),
        ("disk", disk(&app.watched.folder, &app.config)),
        ("records", records),
        ("shutdown", shutdown),
    ]
    .map(|(name, outcome)| check(name, outcome))
    .into();
    let status = checks.iter().map(|check| check.status).max().unwrap_or(HealthStatus::Ok);
    let health = Health { status, checks };
    *seen = Some((Instant::now(), health.clone()));
    health
}

fn audit(app: &App) -> Result<(), (HealthStatus, String)> {
    match app.engine.audit().trouble() {
        None => Ok(()),
        // What the system said has no path in it.
        Some(cause) => {
            Err((HealthStatus::Degraded, format!("the audit log cannot be written: {cause}")))
        }
    }
}

fn check(name: &str, outcome: Result<(), (HealthStatus, String)>) -> HealthCheck {
    let (status, reason) = match outcome {
        Ok(()) => (HealthStatus::Ok, None),
        Err((status, reason)) => (status, Some(reason)),
    };
    HealthCheck { name: name.to_owned(), status, reason }
}

fn descriptors(config: &Config) -> Result<(), (HealthStatus, String)> {
    let degraded = |reason: String| (HealthStatus::Degraded, reason);
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    // The listing has a descriptor of its own.
    let open = std::fs::read_dir("/proc/self/fd")
        .map_err(|error| degraded(format!("descriptors cannot be counted: {error}")))?
        .count();
    let open = u64::try_from(open).unwrap_or(u64::MAX);
    if limit.saturating_sub(open) < config.descriptors_free_min {
        return Err(degraded(format!("{open} of {limit} descriptors are open")));
    }
    Ok(())
}

fn disk(folder: &Path, config: &Config) -> Result<(), (HealthStatus, String)> {
    let degraded = |reason: String| (HealthStatus::Degraded, reason);
    let disk = rustix::fs::statvfs(folder)
        .map_err(|error| degraded(format!("free space cannot be told: {error}")))?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free_bytes < config.disk_free_bytes_min {
        return Err(degraded(format!("{free_bytes} bytes are free where the records are")));
    }
    Ok(())
}
