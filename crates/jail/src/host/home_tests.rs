use super::*;
use std::fs::{create_dir_all, write};
use std::os::unix::fs::symlink;

/// A home directory beside a directory of its own for things elsewhere.
fn given() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let real = base.path().canonicalize().unwrap();
    let (own, elsewhere) = (real.join("home"), real.join("elsewhere"));
    create_dir_all(&own).unwrap();
    create_dir_all(&elsewhere).unwrap();
    (base, own, elsewhere)
}

fn program(path: &Path) {
    create_dir_all(path.parent().unwrap()).unwrap();
    write(path, "").unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn link(at: &Path, to: impl AsRef<Path>) {
    create_dir_all(at.parent().unwrap()).unwrap();
    symlink(to, at).unwrap();
}

/// What is shown at `at`: "bind SOURCE" or "link TARGET".
fn shown(view: &[Entry], at: &Path) -> Option<String> {
    let entry = view.iter().find(|entry| entry.at == at)?;
    Some(match &entry.what {
        What::Bind { source: Source::Path { path, .. }, access: Access::ReadOnly, .. } => {
            format!("bind {}", path.display())
        }
        What::Link { to } => format!("link {}", to.display()),
        other => format!("{other:?}"),
    })
}

fn bind(path: &Path) -> Option<String> {
    Some(format!("bind {}", path.display()))
}

#[test]
fn toolchains_are_shown_and_what_lies_beside_them_is_not() {
    let (_base, own, _) = given();
    program(&own.join(".cargo/bin/tool"));
    write(own.join(".cargo/credentials.toml"), "secret").unwrap();
    program(&own.join(".tool-versions"));
    let view = home(&own, None);
    assert_eq!(shown(&view, &own.join(".cargo/bin")), bind(&own.join(".cargo/bin")));
    assert_eq!(shown(&view, &own.join(".tool-versions")), bind(&own.join(".tool-versions")));
    assert_eq!(view.len(), 3, "{view:?}");
}

#[test]
fn a_toolchain_on_another_disk_has_both_its_names() {
    let (_base, own, elsewhere) = given();
    program(&elsewhere.join("pyenv/bin/pyenv"));
    program(&elsewhere.join("local/bin/tool"));
    link(&own.join(".pyenv"), elsewhere.join("pyenv"));
    link(&own.join(".local"), "../elsewhere/local");
    let view = home(&own, None);
    assert_eq!(shown(&view, &own.join(".pyenv")), bind(&elsewhere.join("pyenv")));
    let both = Some(format!("link {}", own.join(".pyenv").display()));
    assert_eq!(shown(&view, &elsewhere.join("pyenv")), both);
    assert_eq!(shown(&view, &own.join(".local/bin")), bind(&elsewhere.join("local/bin")));
}

#[test]
fn one_toolchain_under_two_names_is_shown_once() {
    let (_base, own, _) = given();
    program(&own.join(".local/share/fnm/fnm"));
    link(&own.join(".fnm"), ".local/share/fnm");
    link(&own.join(".nix-profile"), "/usr/lib");
    let view = home(&own, None);
    assert_eq!(shown(&view, &own.join(".fnm")), bind(&own.join(".local/share/fnm")));
    let first = Some(format!("link {}", own.join(".fnm").display()));
    assert_eq!(shown(&view, &own.join(".local/share/fnm")), first);
    assert_eq!(shown(&view, &own.join(".nix-profile")), Some("link /usr/lib".to_owned()));
}

#[test]
fn links_to_programs_elsewhere_find_them() {
    let (_base, own, elsewhere) = given();
    let bin = own.join(".local/bin");
    program(&own.join(".local/share/tool/versions/1/tool"));
    link(&own.join(".local/share/tool/current"), "versions/1");
    link(&bin.join("tool"), "../share/tool/current/tool");
    program(&elsewhere.join("one"));
    write(elsewhere.join("secret"), "secret").unwrap();
    link(&bin.join("one"), elsewhere.join("one"));
    link(&bin.join("gone"), "no-such-file");
    link(&bin.join("inside"), "one");
    link(&bin.join("system"), "/usr/bin/env");
    link(&bin.join("cached"), "../../.cache/x/tool");
    program(&own.join(".cache/x/tool"));
    link(&bin.join("account"), "/etc/passwd");
    let view = home(&own, None);
    let tool = own.join(".local/share/tool");
    assert_eq!(shown(&view, &tool), bind(&tool));
    assert_eq!(shown(&view, &elsewhere.join("one")), bind(&elsewhere.join("one")));
    // HOME, the directory of programs, and these two.
    assert_eq!(view.len(), 4, "{view:?}");
}

#[test]
fn a_link_to_home_or_above_shows_nothing() {
    let (_base, own, _) = given();
    link(&own.join(".nvm"), "..");
    link(&own.join(".volta"), ".");
    assert_eq!(home(&own, None).len(), 1);
}

#[test]
fn the_number_of_targets_is_bounded() {
    let (_base, own, elsewhere) = given();
    for number in 0..200 {
        let target = elsewhere.join(format!("{number}"));
        program(&target);
        link(&own.join(format!(".local/bin/{number}")), target);
    }
    let view = home(&own, None);
    assert!((TARGETS_MAX..TARGETS_MAX + 60).contains(&view.len()), "{}", view.len());
}

#[test]
fn what_tools_publish_with_is_held_back() {
    let (_base, own, elsewhere) = given();
    write_below(&own, ".local/share/uv/tools/ruff/bin/ruff");
    write_below(&own, ".local/share/uv/credentials/credentials.toml");
    write_below(&own, ".rye/credentials");
    write_below(&own, ".rye/shims/python");
    write_below(&elsewhere, "opam/default/bin/ocaml");
    write_below(&elsewhere, "opam/plugins/opam-publish/ada.token");
    link(&own.join(".opam"), elsewhere.join("opam"));
    let view = home(&own, None);
    let uv = own.join(".local/share/uv");
    assert_eq!(shown(&view, &uv.join("tools")), bind(&uv.join("tools")));
    assert_eq!(shown(&view, &own.join(".rye/shims")), bind(&own.join(".rye/shims")));
    let mask = Some("Mask { kind: Directory }".to_owned());
    assert_eq!(shown(&view, &own.join(".opam/plugins")), mask);
    let is_seen =
        |path: &Path| view.iter().any(|entry| path.starts_with(&entry.at) && entry.at != own);
    assert!(is_seen(&uv.join("tools/ruff")), "control");
    assert!(
        !is_seen(&uv.join("credentials")) && !is_seen(&own.join(".rye/credentials")),
        "{view:?}"
    );
    // A program that lies beside them brings the directory into view.
    write_below(&own, ".local/share/uv/uv");
    std::fs::set_permissions(uv.join("uv"), std::fs::Permissions::from_mode(0o755)).unwrap();
    link(&own.join(".local/bin/uv"), "../share/uv/uv");
    assert_eq!(shown(&home(&own, None), &uv.join("credentials")), mask);
}

#[test]
fn links_among_programs_to_what_is_no_program_lead_nowhere() {
    let (_base, own, _) = given();
    write_below(&own, ".ssh/id_ed25519");
    program(&own.join("apps/tool"));
    link(&own.join(".local/bin/key"), "../../.ssh/id_ed25519");
    link(&own.join(".local/bin/tool"), "../../apps/tool");
    let view = home(&own, None);
    assert_eq!(shown(&view, &own.join(".ssh/id_ed25519")), None);
    assert_eq!(shown(&view, &own.join("apps/tool")), bind(&own.join("apps/tool")), "control");
}

fn write_below(base: &Path, name: &str) {
    let path = base.join(name);
    create_dir_all(path.parent().unwrap()).unwrap();
    write(path, "text").unwrap();
}
