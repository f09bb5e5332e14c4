//! Counters for Prometheus.

use atoll_api::exec::{EndCause, Ended};
use atoll_api::pool::Pool;
use atoll_api::sandbox::State;
use atoll_engine::inside::InsideError;
use atoll_engine::inside::exec::Started;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Bounds of the time that answers take, in seconds.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WithStatus {
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WithOutcome {
    outcome: &'static str,
}

pub(crate) struct Metrics {
    registry: Registry,
    creates: Family<WithOutcome, Counter>,
    create_seconds: Histogram,
    execs: Family<WithOutcome, Counter>,
    exec_seconds: Histogram,
    answers: Family<Answer, Counter>,
    seconds: Histogram,
    sandboxes: Family<InState, Gauge>,
    pool_ready: Family<OfPool, Gauge>,
    pub(crate) connections: Gauge,
    pub(crate) streams: Gauge,
    preview_answers: Family<WithStatus, Counter>,
    pub(crate) previews_open: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("atoll"),
            creates: Family::default(),
            create_seconds: Histogram::new(SECONDS),
            execs: Family::default(),
            exec_seconds: Histogram::new(SECONDS),
            answers: Family::default(),
            seconds: Histogram::new(SECONDS),
            sandboxes: Family::default(),
            pool_ready: Family::default(),
            connections: Gauge::default(),
            streams: Gauge::default(),
            preview_answers: Family::default(),
            previews_open: Gauge::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("http_requests", "Requests that were answered", self.answers.clone());
        let help = "Time until an answer began, in seconds";
        registry.register("http_request_duration_seconds", help, self.seconds.clone());
        registry.register("http_connections", "Open connections", self.connections.clone());
        registry.register("http_streams", "Open streams of events", self.streams.clone());
        let help = "Requests to previews that were answered";
        registry.register("preview_requests", help, self.preview_answers.clone());
        let help = "Requests and connections to previews that go on";
        registry.register("preview_streams", help, self.previews_open.clone());
        let help = "Creations that came to an end: made, given because it was there, or the error";
        registry.register("sandbox_creates", help, self.creates.clone());
        let help = "Time until a sandbox was made, in seconds";
        registry.register("sandbox_create_duration_seconds", help, self.create_seconds.clone());
        let help = "Commands that were started, or not, and how those ended that were waited for";
        registry.register("execs", help, self.execs.clone());
        let help = "How long commands ran that were waited for by who started them, in seconds";
        registry.register("exec_duration_seconds", help, self.exec_seconds.clone());
        registry.register("sandboxes", "Sandboxes in each state", self.sandboxes.clone());
        registry.register("pool_ready", "Members of pools that are ready", self.pool_ready.clone());
        self
    }

    pub(crate) fn answered(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let answer = Answer { method, route: route.to_owned(), status };
        self.answers.get_or_create(&answer).inc();
        self.seconds.observe(took.as_secs_f64());
    }

    /// A creation came to an end.
    pub(crate) fn created(&self, outcome: &'static str, took: Duration) {
        self.creates.get_or_create(&WithOutcome { outcome }).inc();
        if outcome == "made" {
            self.create_seconds.observe(took.as_secs_f64());
        }
    }

    /// A command was asked for.
    pub(crate) fn exec_asked_for(&self, outcome: &Result<Started, InsideError>) {
        let outcome = match outcome {
            Ok(started) if started.is_new => "started",
            // It was counted then.
            Ok(_) => return,
            Err(error) => error.to_api().code.as_str(),
        };
        self.execs.get_or_create(&WithOutcome { outcome }).inc();
    }

    /// Who started a command saw how it ended.
    pub(crate) fn exec_ended(&self, ended: &Ended) {
        let outcome = match (ended.cause, ended.exit_code) {
            (Some(EndCause::TimedOut), _) => "timed_out",
            (Some(EndCause::Cancelled), _) => "cancelled",
            (Some(EndCause::Disconnected), _) => "disconnected",
            (None, Some(0)) => "succeeded",
            (None, Some(_)) => "failed",
            (None, None) => "signalled",
        };
        self.execs.get_or_create(&WithOutcome { outcome }).inc();
        self.exec_seconds.observe(Duration::from_micros(ended.duration_us).as_secs_f64());
    }

    pub(crate) fn preview_answered(&self, status: u16) {
        self.preview_answers.get_or_create(&WithStatus { status }).inc();
    }

    /// Everything as text, in the form that Prometheus reads.
    pub(crate) fn text(
        &self,
        states: &BTreeMap<State, usize>,
        pools: &[Pool],
    ) -> Result<String, fmt::Error> {
        // Those that are deleted are not told of any more.
        self.pool_ready.clear();
        for pool in pools {
            let of = OfPool { pool: pool.name.to_string() };
            self.pool_ready.get_or_create(&of).set(i64::from(pool.ready));
        }
        for (state, &count) in states {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.sandboxes.get_or_create(&InState { state: state.as_str() }).set(count);
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
