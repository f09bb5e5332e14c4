//! From features to tiers. Pure.

use atoll_jail::features::{
    Facts, Feature, Missing, Needs, Probes, State, limits_missing, require, survey,
};

/// Whether a tier works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Yes,
    Limited,
    No,
}

/// One tier, and why it is so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tier {
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    /// What is missing or restricted, the gravest first.
    pub(super) reasons: Vec<String>,
    /// The one command that helps most.
    pub(super) command: Option<String>,
    /// Whether the host has what the tier needs, be it built or not.
    pub(super) is_host_ready: bool,
}

/// All tiers, the container tier first.
pub(super) fn judge(facts: &Facts, probes: &Probes) -> Vec<Tier> {
    let features = survey(facts, probes);
    vec![container(facts, probes, &features), gvisor(&features), microvm(&features), wasm()]
}

fn container(facts: &Facts, probes: &Probes, features: &[Feature]) -> Tier {
    let name = "container";
    if let Err(missing) = require(&Needs::default(), facts, probes) {
        let Missing { feature, detail, fix } = missing;
        let mut reasons = vec![format!("{feature}: {detail}")];
        reasons.extend(fix.iter().map(|fix| fix.cause.clone()));
        let command = fix.and_then(|fix| fix.command);
        return Tier { name, verdict: Verdict::No, reasons, command, is_host_ready: false };
    }
    let mut reasons = Vec::new();
    let mut command = None;
    let mut limit = |feature: &str, consequence: String| {
        reasons.push(consequence);
        let fix = find(features, feature).and_then(|feature| feature.fix.as_ref());
        command = command.take().or_else(|| fix.and_then(|fix| fix.command.clone()));
    };
    if !is_there(features, "seccomp-notify") {
        limit("seccomp-notify", "live mode cannot guard protected names and is refused".into());
    }
    if !is_there(features, "overlay") {
        limit("overlay", "review mode cannot mount its overlay and is refused".into());
    }
    if !is_there(features, "landlock") {
        limit("landlock", "without Landlock, mounts alone decide what can be written".into());
    }
    let unlimited = facts.cgroups.as_ref().map(limits_missing).unwrap_or_default();
    let unlimited: Vec<_> = unlimited.iter().map(ToString::to_string).collect();
    if !unlimited.is_empty() {
        let cause = find(features, "cgroups").and_then(|feature| feature.fix.as_ref());
        let cause = cause.map(|fix| format!(" ({})", fix.cause)).unwrap_or_default();
        let unlimited = unlimited.join(", ");
        limit("cgroups", format!("limits that are not enforced: {unlimited}{cause}"));
    }
    let verdict = if reasons.is_empty() { Verdict::Yes } else { Verdict::Limited };
    Tier { name, verdict, reasons, command, is_host_ready: true }
}

fn gvisor(features: &[Feature]) -> Tier {
    not_built("gvisor", find(features, "runsc"), "install runsc from https://gvisor.dev")
}

fn microvm(features: &[Feature]) -> Tier {
    not_built("microvm", find(features, "kvm"), "this needs a machine with KVM")
}

fn wasm() -> Tier {
    not_built("wasm", None, "")
}

/// A tier of a later version. What the host lacks for it is said all the same.
fn not_built(name: &'static str, need: Option<&Feature>, otherwise: &str) -> Tier {
    let mut reasons = vec!["this version of atoll does not have it".to_owned()];
    let is_host_ready = need.is_none_or(|need| need.state == State::Yes);
    let mut command = None;
    if is_host_ready {
        reasons.push("this host is ready for it".to_owned());
    }
    if let Some(need) = need.filter(|_| !is_host_ready) {
        reasons.push(format!("{}: {}", need.name, need.detail));
        let cause = need.fix.as_ref().map_or(otherwise, |fix| fix.cause.as_str());
        reasons.push(cause.to_owned());
        command = need.fix.as_ref().and_then(|fix| fix.command.clone());
    }
    Tier { name, verdict: Verdict::No, reasons, command, is_host_ready }
}

fn find<'a>(features: &'a [Feature], name: &str) -> Option<&'a Feature> {
    features.iter().find(|feature| feature.name == name)
}

fn is_there(features: &[Feature], name: &str) -> bool {
    find(features, name).is_some_and(|feature| feature.state == State::Yes)
}
