//! The protected names, from the policy to the judge.

use super::inside::{Judged, Rules};
use super::view::Project;
use crate::error::CliError;
use crate::policy::ignore::IgnoreSet;
use atoll_api::policy::{EffectivePolicy, Verdict, WorkspaceMode};
use atoll_api::protect::{Handling, NAMES, Scope};
use atoll_jail::judge::{Pattern, PatternError, Root};
use std::sync::Arc;

/// What the judge goes by for `project` under `policy`.
pub(super) fn rules(
    policy: &EffectivePolicy,
    project: &Project,
    ignore: IgnoreSet,
) -> Result<Rules, CliError> {
    let failed =
        |error: PatternError| CliError::new("a protected name is not a pattern").because(error);
    let names = |scope: Scope, handling: Handling| {
        NAMES
            .iter()
            .filter(move |name| name.scope == scope && name.handling == handling)
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
    let denied = of(Verdict::Deny).chain(names(Scope::AnyDepth, Handling::Refuse));
    let root = project.root.clone();
    let (device, inode) = project.identity;
    let (project, hides) = match policy.workspace.mode.value {
        WorkspaceMode::Live => {
            (Judged::Live(Root { path: root, device, inode }), !ignore.is_empty())
        }
        // The copy hides by itself.
        WorkspaceMode::Review => (Judged::Copy(root), false),
        WorkspaceMode::None => (Judged::Absent, false),
    };
    Ok(Rules {
        project,
        grants: policy.files.write.iter().map(|grant| grant.value.path.clone()).collect(),
        tool_names: patterns(&mut names(Scope::Roots, Handling::Refuse))?,
        allow: patterns(&mut of(Verdict::Allow))?,
        deny: patterns(&mut denied.chain(ignore_files))?,
        told_names: patterns(&mut names(Scope::Roots, Handling::Report))?,
        is_strict: policy.workspace.strict_ignore.value && hides,
        has_nested_users: policy.kernel.nested_userns.value,
        hidden: hides.then(|| Arc::new(ignore)),
    })
}
