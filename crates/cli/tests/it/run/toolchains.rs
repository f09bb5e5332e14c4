//! Toolchains and caches under a HOME that is hidden.

use super::each;
use atoll_testkit::run::{Project, Ran};
use atoll_testkit::skip::{is_installed, skip};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// A program that says its name and its arguments.
fn program(path: &Path, says: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\necho {says} \"$@\"\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn link(at: &Path, to: impl AsRef<Path>) {
    std::fs::create_dir_all(at.parent().unwrap()).unwrap();
    symlink(to, at).unwrap();
}

fn secret(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "secret").unwrap();
}

/// Runs the script with these directories of HOME in front of PATH.
fn run_with_path(project: &Project, directories: &[&str], script: &str) -> Ran {
    let own = project.home();
    let mut path: Vec<_> = directories.iter().map(|directory| own.join(directory)).collect();
    path.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into));
    let mut command = project.atoll(&["run", "--", "sh", "-c", script]);
    command.env("PATH", std::env::join_paths(path).unwrap());
    Ran(command.output().unwrap())
}

#[test]
fn programs_of_version_managers_run_and_secrets_beside_them_are_hidden() {
    each(|project| {
        let own = project.home();
        let places = [
            (".pyenv/shims", "tool-pyenv"),
            (".nvm/versions/node/v1/bin", "tool-nvm"),
            (".rustup/toolchains/stable/bin", "tool-rustup"),
            (".cargo/bin", "tool-cargo"),
            (".asdf/shims", "tool-asdf"),
            (".local/share/mise/shims", "tool-mise"),
            (".local/bin", "tool-local"),
            (".volta/bin", "tool-volta"),
            (".npm-global/bin", "tool-npm"),
            ("go/bin", "tool-go"),
        ];
        let mut expected = String::new();
        for (place, name) in places {
            program(&own.join(place).join(name), name);
            expected += &format!("{name} x\n");
        }
        let secrets =
            [".cargo/credentials.toml", ".npmrc", ".pypirc", ".netrc", ".config/gh/hosts.yml"];
        for path in secrets {
            secret(&own.join(path));
        }
        project.user.give(&own);
        let directories = places.map(|(place, _)| place);
        let script = places.map(|(_, name)| format!("{name} x; ")).concat();
        let run = run_with_path(project, &directories, &script);
        assert_eq!(run.stdout(), expected, "{}", run.text());
        let script = secrets.map(|path| format!("cat ~/{path}; ")).concat();
        let hidden = run_with_path(project, &[], &script);
        assert_eq!(hidden.stdout(), "", "{}", hidden.text());
        // Control.
        assert_eq!(project.bare_sh(&script).stdout(), "secret".repeat(secrets.len()));
        let script = places.map(|(place, _)| format!("touch ~/{place}/x 2> /dev/null; ")).concat();
        run_with_path(project, &[], &script);
        for (place, _) in places {
            assert!(!own.join(place).join("x").exists(), "{place} was written");
        }
        assert_eq!(project.bare_sh(&script).code(), Some(0));
    });
}

/// Runs words as the project's user where `/nix` is what `$1/nix` holds: a root of
/// its own, over the host's, that only these see.
const WITH_NIX: &str = r#"
set -e
mount -t tmpfs none "$1/mnt"
mkdir -p "$1/mnt/up" "$1/mnt/work" "$1/mnt/root"
cp -a "$1/nix" "$1/mnt/up/nix"
mount -t overlay none -o "lowerdir=/,upperdir=$1/mnt/up,workdir=$1/mnt/work" "$1/mnt/root"
for place in dev proc sys tmp; do mount --rbind "/$place" "$1/mnt/root/$place"; done
mount --make-rprivate "$1/mnt/root"
cd "$1/mnt/root"
/usr/sbin/pivot_root . nix/old-root
umount -l /nix/old-root
cd "$2"
shift 3
exec "$@"
"#;

#[test]
fn programs_of_nix_are_found_by_the_links_of_a_profile() {
    if !rustix::process::geteuid().is_root() {
        skip("nix-store", "run by an ordinary user");
        return;
    }
    each(|project| {
        let (own, beside) = (project.home(), project.outside());
        let nix = beside.join("nix");
        std::fs::create_dir_all(beside.join("mnt")).unwrap();
        std::fs::create_dir_all(nix.join("old-root")).unwrap();
        let store = nix.join("store");
        // A package that needs another by its path, and a profile that links to it.
        program(&store.join("a-lib/bin/part"), "part");
        program(&store.join("b-tool/bin/tool"), "tool $(/nix/store/a-lib/bin/part)");
        link(&store.join("c-profile/bin/tool"), "/nix/store/b-tool/bin/tool");
        let profiles = nix.join("var/nix/profiles/per-user/tester");
        link(&profiles.join("profile-1-link"), "/nix/store/c-profile");
        link(&profiles.join("profile"), "profile-1-link");
        secret(&nix.join("var/nix/db/db.sqlite"));
        secret(&nix.join("var/nix/daemon-socket/socket"));
        // The old place of a profile and the new one, in HOME.
        let old = "/nix/var/nix/profiles/per-user/tester/profile";
        let new = own.join(".local/state/nix/profiles");
        link(&new.join("profile-1-link"), "/nix/store/c-profile");
        link(&new.join("profile"), "profile-1-link");
        secret(&own.join(".config/nix/nix.conf"));
        project.user.give(&own);
        let uid = project.user.uid().unwrap().to_string();
        for profile in [Path::new(old), &new.join("profile")] {
            std::fs::remove_file(own.join(".nix-profile")).ok();
            link(&own.join(".nix-profile"), profile);
            let with_nix = |words: &[&str]| {
                let mut root = std::process::Command::new("unshare");
                root.args(["-m", "sh", "-c", WITH_NIX, "sh"]).arg(&beside).arg(project.root());
                root.args(["--", "setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups"]);
                root.args(words).env_clear().env("HOME", &own).env("USER", "tester");
                let path = format!("{}/.nix-profile/bin:/usr/bin:/bin", own.display());
                Ran(root.env("PATH", path).output().unwrap())
            };
            let script = "tool; command -v tool; cat ~/.config/nix/nix.conf /nix/var/nix/db/db.sqlite \
                /nix/var/nix/daemon-socket/socket; echo x > /nix/store/x; ls /nix/store";
            let found = format!("tool part\n{}/.nix-profile/bin/tool\n", own.display());
            let listed = "a-lib\nb-tool\nc-profile\n";
            for mode in ["live", "review"] {
                let program = project.program().to_str().unwrap();
                let run =
                    with_nix(&[program, "run", "--workspace", mode, "--", "sh", "-c", script]);
                assert_eq!(run.stdout(), format!("{found}{listed}"), "{mode} {}", run.text());
            }
            // The control: outside the rest is there too.
            let bare = with_nix(&["sh", "-c", script]);
            assert!(
                bare.stdout().starts_with(&format!("{found}secretsecretsecret")),
                "{}",
                bare.text()
            );
        }
    });
}

#[test]
fn the_order_of_path_is_kept() {
    each(|project| {
        let own = project.home();
        program(&own.join(".pyenv/shims/python3"), "pyenv");
        program(&own.join(".local/bin/python3"), "local");
        project.user.give(&own);
        let order = |directories: &[&str]| run_with_path(project, directories, "python3").stdout();
        assert_eq!(order(&[".pyenv/shims", ".local/bin"]), "pyenv\n");
        assert_eq!(order(&[".local/bin", ".pyenv/shims"]), "local\n");
    });
}

#[test]
fn links_lead_where_they_lead_outside() {
    each(|project| {
        let (own, disk) = (project.home(), project.outside());
        // A whole toolchain on another disk, which names itself by its real path.
        let real = disk.join("pyenv");
        program(&real.join("bin/tool"), "pyenv");
        program(&real.join("bin/by-path"), &format!("$({}/bin/tool)", real.display()));
        link(&own.join(".pyenv"), &real);
        // `current`, inside the toolchain.
        program(&own.join(".nvm/versions/v1/bin/node-tool"), "nvm");
        link(&own.join(".nvm/current"), "versions/v1");
        // A tool with a directory of its own, and one that is a single file.
        program(
            &own.join(".local/share/tool/1.0/bin/installed"),
            "installed $(cat $(dirname $(readlink -f $0))/data)",
        );
        std::fs::write(own.join(".local/share/tool/1.0/bin/data"), "whole").unwrap();
        link(&own.join(".local/share/tool/current"), "1.0");
        link(&own.join(".local/bin/installed"), "../share/tool/current/bin/installed");
        program(&disk.join("alone"), "alone");
        secret(&disk.join("beside"));
        link(&own.join(".local/bin/alone"), disk.join("alone"));
        link(&own.join(".local/bin/dangling"), "nowhere");
        project.user.give(&own);
        project.user.give(&disk);
        let script =
            format!("tool; by-path; node-tool; installed; alone; cat {}/beside", disk.display());
        let run =
            run_with_path(project, &[".pyenv/bin", ".nvm/current/bin", ".local/bin"], &script);
        assert_eq!(run.stdout(), "pyenv\npyenv\nnvm\ninstalled whole\nalone\n", "{}", run.text());
    });
}

#[test]
fn a_program_of_the_project_that_home_links_to_stays_writable() {
    each(|project| {
        program(&project.root().join("bin/mine"), "mine");
        link(&project.home().join(".local/bin/mine"), project.root().join("bin/mine"));
        project.user.give(&project.root());
        project.user.give(&project.home());
        let script = "mine; echo 'echo changed' > bin/mine; mine";
        let run = run_with_path(project, &[".local/bin"], script);
        assert_eq!(run.stdout(), "mine\nchanged\n", "{}", run.text());
    });
}

#[test]
fn caches_are_the_projects_own_and_last() {
    const PLACES: &str =
        ".npm .m2 .gradle .cargo/registry .cargo/git go/pkg .yarn .cache .cache/pip";
    each(|project| {
        let own = project.home();
        secret(&own.join(".npm/token"));
        secret(&own.join(".cache/pip/http"));
        project.user.give(&own);
        let each_place = |act: &str| format!("set -e; cd; for at in {PLACES}; do {act}; done");
        let write = each_place("mkdir -p $at/; echo kept > $at/file");
        let run = project.run_sh(&[], &write);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let read = each_place("cat $at/file");
        assert_eq!(project.run_sh(&[], &read).stdout(), "kept\n".repeat(9));
        // What the user keeps there is not shown, and nothing is left there.
        let user = project.run_sh(&[], "cat ~/.npm/token ~/.cache/pip/http");
        assert_eq!(user.stdout(), "", "{}", user.text());
        assert_eq!(project.bare_sh("cat ~/.npm/token ~/.cache/pip/http").stdout(), "secretsecret");
        assert!(!own.join(".npm/file").exists() && !own.join(".cache/file").exists());
        // Another project has its own.
        let other = project.outside();
        let flags = ["--project", other.to_str().unwrap()];
        let run = project.run_sh(&flags, "cat ~/.npm/file");
        assert_ne!(run.code(), Some(0), "{}", run.text());
    });
}

/// What go does: a cache of builds below `~/.cache`, modules in `~/go/pkg/mod`, which
/// it makes read-only, and a lock. Others do parts of it.
const LIKE_GO: &str = r#"
set -e
test -z "$GOPATH$GOMODCACHE$GOCACHE$CARGO_HOME$UV_CACHE_DIR$CCACHE_DIR$GRADLE_USER_HOME$npm_config_cache"
modules=${GOMODCACHE:-${GOPATH:-$HOME/go}/pkg/mod}
builds=${GOCACHE:-$HOME/.cache/go-build}
mkdir -p "$modules/cache/download" "$builds/00"
exec 9> "$modules/cache/lock"; flock 9
if test -e "$modules/example.org/m@v1/m.go"; then echo "a module from the cache"; else
    mkdir -p "$modules/cache/tmp/m@v1"; echo 'package m' > "$modules/cache/tmp/m@v1/m.go"
    mkdir -p "$modules/example.org"; mv "$modules/cache/tmp/m@v1" "$modules/example.org/m@v1"
    chmod 444 "$modules/example.org/m@v1/m.go"; chmod 555 "$modules/example.org/m@v1"
fi
if test -e "$builds/00/object"; then echo "an object from the cache"; else
    echo object > "$builds/00/part"; mv "$builds/00/part" "$builds/00/object"
fi
cp "$builds/00/object" program; cat program
# What comes out of a cache into a tree is linked, or copied where that cannot be.
ln "$modules/example.org/m@v1/m.go" vendored 2> /dev/null || cp "$modules/example.org/m@v1/m.go" vendored
cat vendored; rm -f vendored program
if test "$1" = clean; then chmod -R u+w "$modules"; rm -rf "$modules"/* "$builds"/*; fi
"#;

#[test]
fn a_toolchain_with_caches_in_its_usual_places_finds_them_again() {
    each(|project| {
        project.write("like-go", LIKE_GO);
        let run = |mode: &str, then: &str| {
            let mut command = project.atoll(&["run", "--workspace", mode, "--", "sh", "like-go"]);
            // A cache that the caller has elsewhere is not in the view.
            command.arg(then).env("GOPATH", "/elsewhere").env("CARGO_HOME", "/elsewhere");
            Ran(command.output().unwrap())
        };
        let made = "object\npackage m\n";
        let cached = format!("a module from the cache\nan object from the cache\n{made}");
        assert_eq!(run("live", "").stdout(), made);
        let again = run("review", "");
        assert_eq!(again.stdout(), cached, "{}", again.text());
        let cleaned = run("live", "clean");
        assert_eq!((cleaned.code(), cleaned.stdout()), (Some(0), cached), "{}", cleaned.text());
        assert_eq!(run("live", "").stdout(), made);
        assert_eq!(
            std::fs::read_dir(project.home().join("go")).map(Iterator::count).unwrap_or(0),
            0
        );
    });
}

#[test]
fn a_compilers_cache_hits_in_the_next_run() {
    if !is_installed("ccache", "ccache") {
        return;
    }
    each(|project| {
        project.write("a.c", "int main(void) { return 3; }\n");
        let script = "ccache gcc -c a.c -o a.o && gcc a.o -o a; ./a; echo $?
            ccache --print-stats | sed -n 's/^direct_cache_hit.//p'";
        for (mode, hits) in [("live", "0"), ("live", "1"), ("review", "2")] {
            let run = project.run_sh(&["--workspace", mode], script);
            assert_eq!(run.stdout(), format!("3\n{hits}\n"), "{mode} {}", run.text());
        }
        // The user's own cache is another one.
        let bare = project.bare_sh("ccache --print-stats | grep -c '^direct_cache_hit.0$'");
        assert_eq!(bare.stdout(), "1\n", "{}", bare.text());
    });
}
