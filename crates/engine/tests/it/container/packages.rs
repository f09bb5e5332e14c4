//! A system's own package manager, run by the root inside.

use super::Machine;
use crate::support::{live, named};
use atoll_api::sandbox::CreateSandbox;
use atoll_engine::backend::Backend as _;
use atoll_protocol::exec::User;
use atoll_testkit::guest::sh;
use atoll_testkit::image::copy_programs;
use atoll_testkit::skip::skip;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 20] = [
    "sh",
    "cat",
    "ls",
    "id",
    "stat",
    "chown",
    "chmod",
    "mkdir",
    "mv",
    "rm",
    "ln",
    "find",
    "tar",
    "diff",
    "dpkg",
    "dpkg-deb",
    "dpkg-split",
    "dpkg-query",
    "ldconfig",
    "start-stop-daemon",
];

/// Where dpkg(1) looks for what is installed.
const DATABASE: &str = "var/lib/dpkg";

/// The root file system of a Debian that has nothing but dpkg.
fn debian(parent: &Path) -> PathBuf {
    let root = parent.join("debian");
    copy_programs(&root, &PROGRAMS);
    for name in ["etc/dpkg", "info", "updates", "triggers"] {
        let below =
            if name.starts_with("etc") { name.into() } else { format!("{DATABASE}/{name}") };
        std::fs::create_dir_all(root.join(below)).unwrap();
    }
    for name in ["status", "available"] {
        std::fs::write(root.join(DATABASE).join(name), "").unwrap();
    }
    let accounts = "root:x:0:0::/root:/bin/sh\nmail:x:8:8::/:/bin/sh\n";
    std::fs::write(root.join("etc/passwd"), accounts).unwrap();
    std::fs::write(root.join("etc/group"), "root:x:0:\nmail:x:8:\n").unwrap();
    root
}

/// A package with a program, a setting, and a directory that its script gives to an account.
fn package(parent: &Path, version: &str) -> PathBuf {
    let tree = parent.join(format!("tree-{version}"));
    for name in ["DEBIAN", "usr/bin", "etc", "var/spool/letters"] {
        std::fs::create_dir_all(tree.join(name)).unwrap();
    }
    let control = format!(
        "Package: letters\nVersion: {version}\nArchitecture: all\nMaintainer: a <a@b>\nDescription: letters\n"
    );
    let script =
        "#!/bin/sh\nset -e\nchown mail:mail /var/spool/letters\nchmod 2770 /var/spool/letters\n";
    for (name, text, mode) in [
        ("DEBIAN/control", control.as_str(), 0o644),
        ("DEBIAN/conffiles", "/etc/letters\n", 0o644),
        ("DEBIAN/postinst", script, 0o755),
        ("usr/bin/letters", &format!("#!/bin/sh\necho letters {version}\n"), 0o755),
        ("etc/letters", "setting\n", 0o644),
    ] {
        std::fs::write(tree.join(name), text).unwrap();
        std::fs::set_permissions(tree.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let built = parent.join(format!("letters-{version}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&tree).arg(&built);
    let told = build.output().unwrap();
    assert!(told.status.success(), "{told:?}");
    built
}

#[test]
fn the_root_inside_installs_replaces_and_removes_packages() {
    let machine = Machine::new();
    let can = machine.backend().capabilities();
    if !can.user_root || !can.writable_root {
        return skip("packages", "the server's sandboxes have no root, or none that can write");
    }
    if !Path::new("/usr/bin/dpkg-deb").exists() {
        return skip("packages", "dpkg is not installed");
    }
    let root = debian(machine.dir.path());
    for version in ["1", "2"] {
        let built = package(machine.dir.path(), version);
        std::fs::create_dir_all(root.join("srv")).unwrap();
        std::fs::copy(&built, root.join("srv").join(built.file_name().unwrap())).unwrap();
    }
    live(async {
        let engine = machine.start().await;
        let image = root.to_str().unwrap().to_owned();
        let id = engine.create(CreateSandbox { image, ..named("one") }).await.unwrap().id;
        let run = |user: User, script: &str| {
            let mut start = sh(script);
            start.command.user = user;
            let ran = machine.guest(id).run(start);
            format!("{}{}", ran.text(), String::from_utf8_lossy(&ran.stderr))
        };
        // The user may not.
        let refused = run(User::Workload, "dpkg -i /srv/letters-1.deb");
        assert!(refused.contains("superuser"), "{refused}");
        let look =
            "letters; stat -c %U:%G:%a:%n /usr/bin/letters /var/spool/letters; cat /etc/letters";
        let owners = "root:root:755:/usr/bin/letters\nmail:mail:2770:/var/spool/letters\n";
        let installed = run(User::Root, "dpkg -i /srv/letters-1.deb");
        assert!(installed.contains("Setting up letters (1)"), "{installed}");
        assert_eq!(run(User::Workload, look), format!("letters 1\n{owners}setting\n"));
        // A newer one keeps what was set, also after a night.
        run(User::Root, "echo mine > /etc/letters");
        engine.stop(id).await.unwrap();
        engine.resume(id).await.unwrap();
        let replaced = run(User::Root, "dpkg -i --force-confold /srv/letters-2.deb");
        assert!(replaced.contains("Setting up letters (2)"), "{replaced}");
        assert_eq!(run(User::Workload, look), format!("letters 2\n{owners}mine\n"));
        let removed = run(User::Root, "dpkg --purge letters");
        assert!(!removed.contains("error"), "{removed}");
        let left = run(User::Root, "ls -d /usr/bin/letters /etc/letters /var/spool/letters 2>&1");
        assert_eq!(left.matches("No such file").count(), 3, "{left}");
        assert!(!root.join("usr/bin/letters").exists());
        engine.delete(id).await.unwrap();
        engine.shutdown().await;
    });
}
