//! The layer check: which crate may know which.
//!
//! The table below is the architecture. Moving an arrow means changing it, so
//! that the change is seen.

use crate::workspace::{self, Dependency, DependencyKind, Package};
use anyhow::{Result, bail};

/// Check which crate depends on which
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// One crate of the workspace and the crates of the workspace that it may know.
struct Layer {
    package: &'static str,
    may_know: &'static [&'static str],
}

const fn layer(package: &'static str, may_know: &'static [&'static str]) -> Layer {
    Layer { package, may_know }
}

/// `jail`, `store`, `egress` and `vmm` never know each other or `api`; `sys`
/// knows none. Crates that are still to come are listed, so that their place is
/// settled before their first line.
///
/// `api` and `protocol` do not know each other either, though both have `Octets`: what the
/// public API promises and what one version says to its guests change for different reasons,
/// and `api` would bring its descriptions of schemas into every guest. A third crate for both
/// would be a noun, and no process or trust boundary. For the same reason `spawner` asks guests
/// in its own way: it is synchronous, and trusts what the engine doubts.
const LAYERS: &[Layer] = &[
    layer("atoll-sys", &[]),
    layer("atoll-api", &[]),
    layer("atoll-protocol", &[]),
    layer("atoll-jail", &["atoll-sys"]),
    layer("atoll-store", &["atoll-sys"]),
    layer("atoll-egress", &["atoll-sys"]),
    layer("atoll-vmm", &["atoll-sys"]),
    layer("atoll-guest", &["atoll-protocol", "atoll-sys"]),
    layer("atoll-spawner", &["atoll-guest", "atoll-jail", "atoll-protocol", "atoll-sys"]),
    layer(
        "atoll-engine",
        &[
            "atoll-api",
            "atoll-egress",
            "atoll-jail",
            "atoll-protocol",
            "atoll-spawner",
            "atoll-store",
            "atoll-sys",
            "atoll-vmm",
        ],
    ),
    layer("atoll-server", &["atoll-api", "atoll-engine"]),
    layer("atoll-e2b", &["atoll-api", "atoll-engine"]),
    layer("atoll-client", &["atoll-api"]),
    layer(
        "atoll",
        &[
            "atoll-api",
            "atoll-client",
            "atoll-e2b",
            // What rules mean, and the gateway, which is a role of the program.
            "atoll-egress",
            // Only `serve` does, which puts a server together.
            "atoll-engine",
            "atoll-guest",
            "atoll-jail",
            "atoll-server",
            "atoll-spawner",
            "atoll-store",
            "atoll-sys",
        ],
    ),
    layer("atoll-testkit", &["atoll-api", "atoll-protocol", "atoll-sys"]),
    layer("floor", &[]),
    layer("traffic", &["atoll-testkit"]),
    layer("xtask", &[]),
];

/// Crates that exist for development and that no other may ship.
const DEV_ONLY: &[&str] = &["atoll-testkit", "floor", "traffic", "xtask"];

/// Outside crates that belong in some of ours only.
const HOMES: &[Home] = &[
    Home {
        outside: "anyhow",
        packages: &["atoll-testkit", "floor", "traffic", "xtask"],
        reason: "libraries have an error type per operation",
    },
    // The jail names system calls by their numbers; it has no unsafe code to call them with.
    Home {
        outside: "libc",
        packages: &["atoll-sys", "atoll-jail", "floor"],
        reason: "unsafe calls live in sys",
    },
    Home {
        outside: "rusqlite",
        packages: &["atoll-engine"],
        reason: "records have one owner, the engine",
    },
    Home {
        outside: "tokio",
        packages: &[
            "atoll",
            "atoll-client",
            "atoll-e2b",
            "atoll-egress",
            "atoll-engine",
            "atoll-server",
            "traffic",
        ],
        reason: "what runs before or inside a sandbox is synchronous",
    },
];

struct Home {
    outside: &'static str,
    packages: &'static [&'static str],
    reason: &'static str,
}

pub(crate) fn run(_args: &Args) -> Result<()> {
    let packages = workspace::metadata()?.packages;
    let problems = check(&packages);
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} arrow(s) that the layer table does not have", problems.len());
    }
    println!("{} crates keep to their layers", packages.len());
    Ok(())
}

fn check(packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        let Some(layer) = LAYERS.iter().find(|layer| layer.package == package.name) else {
            problems.push(format!(
                "{}: not in the layer table; say there which crates it may know",
                package.name
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let is_ours = LAYERS.iter().any(|layer| layer.package == dependency.name)
                || packages.iter().any(|package| package.name == dependency.name);
            let problem =
                if is_ours { arrow(layer, dependency) } else { outside(layer, dependency) };
            problems.extend(problem);
        }
    }
    problems
}

/// Judges a dependency on another crate of the workspace.
fn arrow(layer: &Layer, dependency: &Dependency) -> Option<String> {
    let (from, to) = (layer.package, dependency.name.as_str());
    if DEV_ONLY.contains(&to) {
        let is_for_tests = dependency.kind == Some(DependencyKind::Dev);
        let is_among_them = DEV_ONLY.contains(&from) && layer.may_know.contains(&to);
        let fine = to == "atoll-testkit" && is_for_tests || is_among_them;
        return (!fine).then(|| format!("{from} -> {to}: {to} is for development only"));
    }
    (!layer.may_know.contains(&to)).then(|| format!("{from} -> {to}: {from} may not know {to}"))
}

/// Judges a dependency on a crate from elsewhere. Tests may use what they like.
fn outside(layer: &Layer, dependency: &Dependency) -> Option<String> {
    if dependency.kind == Some(DependencyKind::Dev) {
        return None;
    }
    let home = HOMES.iter().find(|home| home.outside == dependency.name)?;
    (!home.packages.contains(&layer.package))
        .then(|| format!("{} -> {}: {}", layer.package, home.outside, home.reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<DependencyKind>)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|&(name, kind)| Dependency { name: name.to_owned(), kind })
            .collect();
        Package { name: name.to_owned(), dependencies }
    }

    #[track_caller]
    fn judge(name: &str, dependency: &str, kind: Option<DependencyKind>, expect: &[&str]) {
        assert_eq!(check(&[package(name, &[(dependency, kind)])]), expect);
    }

    #[test]
    fn arrows_of_the_table_pass() {
        judge("atoll", "atoll-jail", None, &[]);
        judge("atoll-jail", "atoll-sys", None, &[]);
        judge("atoll-guest", "atoll-protocol", None, &[]);
        judge("atoll-engine", "atoll-vmm", None, &[]);
    }

    #[test]
    fn siblings_never_know_each_other() {
        let siblings = ["atoll-jail", "atoll-store", "atoll-egress", "atoll-vmm"];
        for from in siblings {
            for to in siblings.into_iter().filter(|&to| to != from) {
                judge(from, to, None, &[&format!("{from} -> {to}: {from} may not know {to}")]);
            }
            judge(
                from,
                "atoll-api",
                None,
                &[&format!("{from} -> atoll-api: {from} may not know atoll-api")],
            );
        }
    }

    #[test]
    fn sys_knows_none_of_ours() {
        for to in LAYERS.iter().map(|layer| layer.package).filter(|&to| to != "atoll-sys") {
            let found = check(&[package("atoll-sys", &[(to, None)])]);
            assert_eq!(found.len(), 1, "{to}");
        }
    }

    #[test]
    fn a_forbidden_arrow_is_no_better_for_tests_or_builds() {
        for kind in [DependencyKind::Dev, DependencyKind::Build] {
            judge(
                "atoll-guest",
                "atoll-jail",
                Some(kind),
                &["atoll-guest -> atoll-jail: atoll-guest may not know atoll-jail"],
            );
        }
    }

    #[test]
    fn development_crates_do_not_ship() {
        judge("atoll-jail", "atoll-testkit", Some(DependencyKind::Dev), &[]);
        let shipped = "atoll-jail -> atoll-testkit: atoll-testkit is for development only";
        judge("atoll-jail", "atoll-testkit", None, &[shipped]);
        judge("traffic", "atoll-testkit", None, &[]);
        judge("traffic", "floor", None, &["traffic -> floor: floor is for development only"]);
        let floor = "atoll -> floor: floor is for development only";
        judge("atoll", "floor", Some(DependencyKind::Dev), &[floor]);
    }

    #[test]
    fn unknown_crates_fail_until_listed() {
        judge(
            "atoll-new",
            "serde",
            None,
            &["atoll-new: not in the layer table; say there which crates it may know"],
        );
        let both = [package("atoll-new", &[]), package("atoll-jail", &[("atoll-new", None)])];
        assert_eq!(check(&both).len(), 2);
    }

    #[test]
    fn outside_crates_stay_in_their_homes() {
        judge("xtask", "anyhow", None, &[]);
        judge("atoll-jail", "rustix", None, &[]);
        judge("atoll-jail", "libc", Some(DependencyKind::Dev), &[]);
        judge("atoll-guest", "libc", None, &["atoll-guest -> libc: unsafe calls live in sys"]);
        judge(
            "atoll-store",
            "anyhow",
            None,
            &["atoll-store -> anyhow: libraries have an error type per operation"],
        );
    }

    #[test]
    fn the_table_has_no_circle() {
        // A crate may only know crates that stand above it in the table.
        for (index, layer) in LAYERS.iter().enumerate() {
            for known in layer.may_know {
                let place = LAYERS.iter().position(|other| other.package == *known);
                assert!(place.is_some_and(|place| place < index), "{} -> {known}", layer.package);
            }
        }
    }
}
