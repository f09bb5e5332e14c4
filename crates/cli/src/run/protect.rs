//! The protected names of a live workspace, from the policy to the judge.

use super::inside::LiveRules;
use super::view::Project;
use crate::error::CliError;
use crate::policy::ignore::IgnoreSet;
use atoll_api::policy::{EffectivePolicy, Verdict};
use atoll_api::protect::{Handling, NAMES, Scope};
use atoll_jail::judge::{Pattern, PatternError};
use std::sync::Arc;

/// What the judge goes by for `project` under `policy`.
pub(super) fn rules(
    policy: &EffectivePolicy,
    project: &Project,
    ignore: IgnoreSet,
) -> Result<LiveRules, CliError> {
    let failed =
        |error: PatternError| CliError::new("a protected name is not a pattern").because(error);
    let names = |scope: Scope| {
        NAMES
            .iter()
            .filter(move |name| name.scope == scope && name.handling == Handling::Refuse)
            .map(|name| name.name)
    };
    let patterns = |names: &mut dyn Iterator<Item = &str>| {
        names.map(Pattern::new).collect::<Result<Vec<_>, _>>().map_err(failed)
    };
    let of = |verdict: Verdict| {
        policy
            .protect
            .iter()
            .filter(move |rule| rule.value.verdict == verdict)
            .map(|rule| rule.value.pattern.as_str())
    };
    // Names that hide files from the sandbox count at any depth: who could write
    // one could unhide for the next run.
    let ignore_files = policy.files.ignore_files.iter().map(|name| name.value.as_str());
    Ok(LiveRules {
        root: project.root.clone(),
        identity: project.identity,
        grants: policy.files.write.iter().map(|grant| grant.value.path.clone()).collect(),
        tool_names: patterns(&mut names(Scope::Roots))?,
        allow: patterns(&mut of(Verdict::Allow))?,
        deny: patterns(&mut of(Verdict::Deny).chain(names(Scope::AnyDepth)).chain(ignore_files))?,
        is_strict: policy.workspace.strict_ignore.value && !ignore.is_empty(),
        hidden: (!ignore.is_empty()).then(|| Arc::new(ignore)),
    })
}
