//! The diagnosis for programs.

use super::Diagnosis;
use super::tiers::{Tier, Verdict};
use atoll_jail::features::{Feature, State};
use serde_json::{Value, json};

/// One JSON object on one line.
pub(crate) fn json(diagnosis: &Diagnosis) -> String {
    let facts = &diagnosis.facts;
    let object = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "ok": diagnosis.is_fit(),
        "kernel": facts.kernel.text,
        "system": facts.system,
        "uid": facts.uid,
        "container": facts.container,
        "wsl": facts.wsl,
        "tiers": diagnosis.tiers.iter().map(tier).collect::<Vec<_>>(),
        "features": diagnosis.features.iter().map(feature).collect::<Vec<_>>(),
        "notes": diagnosis.notes,
        "took_us": u64::try_from(diagnosis.took_us).unwrap_or(u64::MAX),
    });
    format!("{object}\n")
}

fn tier(tier: &Tier) -> Value {
    let verdict = match tier.verdict {
        Verdict::Yes => "works",
        Verdict::Limited => "works_with_limits",
        Verdict::No => "does_not_work",
    };
    json!({
        "name": tier.name,
        "verdict": verdict,
        "host_ready": tier.is_host_ready,
        "reasons": tier.reasons,
        "fix": tier.command,
    })
}

fn feature(feature: &Feature) -> Value {
    let state = match feature.state {
        State::Yes => "yes",
        State::Limited => "limited",
        State::No => "no",
        State::Unknown => "unknown",
    };
    let fix = feature.fix.as_ref();
    json!({
        "name": feature.name,
        "state": state,
        "detail": feature.detail,
        "cause": fix.map(|fix| &fix.cause),
        "fix": fix.and_then(|fix| fix.command.as_ref()),
    })
}
