//! Another root file system: a directory, or an archive of one.

use super::each;
use atoll_testkit::image::copy_programs;
use atoll_testkit::run::{Project, Ran};
use std::path::{Path, PathBuf};

/// A root file system with a shell and a few tools of this machine, below
/// `outside`, and an archive of it.
fn tiny(project: &Project) -> (PathBuf, PathBuf) {
    let root = project.outside().join("rootfs");
    for name in ["bin", "etc", "home", "proc", "tmp", "usr/bin", "usr/share/own", "var/lib/own"] {
        std::fs::create_dir_all(root.join(name)).unwrap();
    }
    copy_programs(&root, &["sh", "cat", "ls", "id", "touch", "readlink"]);
    std::os::unix::fs::symlink("/bin/sh", root.join("usr/bin/linked-sh")).unwrap();
    std::fs::write(root.join("etc/os-release"), "ID=tiny\n").unwrap();
    std::fs::write(root.join("etc/passwd"), "image:x:7:7::/:/bin/sh\n").unwrap();
    std::fs::write(root.join("usr/share/own/file"), "of the image\n").unwrap();
    std::fs::write(root.join("var/lib/own/file"), "of the image\n").unwrap();
    project.user.give(&project.outside());
    let archive = project.outside().join("rootfs.tar.gz");
    let packed = project.bare_sh("tar -czf ../outside/rootfs.tar.gz -C ../outside/rootfs .");
    assert_eq!(packed.code(), Some(0), "{}", packed.text());
    (root, archive)
}

fn run(project: &Project, image: &Path, script: &str) -> Ran {
    project.run_sh(&["--image", image.to_str().unwrap()], script)
}

#[test]
fn a_directory_and_an_archive_are_the_root() {
    each(|project| {
        project.write("file", "of the project\n");
        let (directory, archive) = tiny(project);
        for image in [directory, archive] {
            let script = "cat file /etc/os-release /usr/share/own/file /var/lib/own/file; ls /usr/bin;
                echo written > new; echo private > ~/x; echo t > /tmp/t; readlink /var/run; echo $PATH";
            let run = run(project, &image, script);
            assert_eq!(
                run.stdout(),
                "of the project\nID=tiny\nof the image\nof the image\nlinked-sh\n/run\n/usr/bin:/bin\n",
                "{}",
                run.text()
            );
            assert_eq!(run.stderr(), "");
            assert_eq!(project.read("new"), "written\n");
            assert!(!project.home().join("x").exists());
        }
    });
}

#[test]
fn the_image_is_read_only_and_the_host_is_not_there() {
    each(|project| {
        let (image, _) = tiny(project);
        for path in ["/usr/x", "/bin/x", "/etc/x", "/var/lib/x", "/x"] {
            let run = run(project, &image, &format!("touch {path}"));
            assert_ne!(run.code(), Some(0), "{path} was written");
        }
        // Control: the directory itself can be.
        let control =
            project.bare_sh("touch ../outside/rootfs/usr/x && rm ../outside/rootfs/usr/x");
        assert_eq!(control.code(), Some(0), "{}", control.text());
        let run = run(project, &image, "ls /usr/bin/env /usr/share/doc /etc/debian_version");
        assert_eq!(run.stdout(), "", "{}", run.text());
    });
}

#[test]
fn the_user_has_an_account_and_a_shell_in_it() {
    each(|project| {
        let (image, _) = tiny(project);
        let mut command = project.atoll(&["run", "--image", image.to_str().unwrap()]);
        command.env("SHELL", "/bin/no-such-shell");
        let output = command.args(["--", "sh", "-c", "cat /etc/passwd; echo $SHELL"]).output();
        let run = Ran(output.unwrap());
        let home = project.home();
        assert!(run.stdout().contains(&format!(":{}:/bin/sh\n", home.display())), "{}", run.text());
        assert!(run.stdout().ends_with("/bin/sh\n") && !run.stdout().contains("image:"));
    });
}

#[test]
fn projects_and_grants_lie_where_the_image_has_directories() {
    each(|project| {
        let (image, _) = tiny(project);
        // The image has what lies above the project, and a link in the way of a grant.
        let above = project.root();
        let place = image.join(above.strip_prefix("/").unwrap());
        std::fs::create_dir_all(place.parent().unwrap().join("beside")).unwrap();
        let granted = project.outside().join("granted");
        std::fs::create_dir_all(&granted).unwrap();
        std::fs::write(granted.join("file"), "granted\n").unwrap();
        project.user.give(&project.outside());
        let flags = ["--image", image.to_str().unwrap(), "--read", granted.to_str().unwrap()];
        let script = format!("cat {}/file; touch made; ls ..", granted.display());
        let run = project.run_sh(&flags, &script);
        assert!(run.stdout().starts_with("granted\n"), "{}", run.text());
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(project.root().join("made").exists());
    });
}

#[test]
fn what_is_no_image_is_named() {
    each(|project| {
        let outside = project.outside();
        std::fs::create_dir_all(outside.join("empty")).unwrap();
        std::fs::write(outside.join("text"), "no archive").unwrap();
        std::fs::write(outside.join("nothing"), "").unwrap();
        project.user.give(&outside);
        for (name, text) in [
            ("absent", "does not exist"),
            ("empty", "is no root file system"),
            ("text", "it is no tar archive"),
            ("nothing", "the root file system cannot be had"),
        ] {
            let run = run(project, &outside.join(name), "true");
            assert_eq!(run.code(), Some(125), "{name}: {}", run.text());
            assert!(run.stderr().contains(name), "{name}: {}", run.text());
            assert!(run.stderr().contains(text), "{name}: {}", run.text());
        }
    });
}

#[test]
fn an_archive_is_unpacked_once() {
    each(|project| {
        let (_, archive) = tiny(project);
        assert_eq!(run(project, &archive, "true").code(), Some(0));
        let images = project.home().join(".cache/atoll/images");
        let unpacked = || {
            let names = std::fs::read_dir(&images).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with("sha256-")).collect::<Vec<_>>()
        };
        let first = unpacked();
        assert_eq!(first.len(), 1);
        let mark = images.join(&first[0]).join("rootfs/usr/share/own/file");
        std::fs::write(&mark, "kept").unwrap();
        assert_eq!(run(project, &archive, "cat /usr/share/own/file").stdout(), "kept");
        assert_eq!(unpacked(), first);
        // It may be thrown away: the next run makes it again.
        std::fs::remove_dir_all(&images).unwrap();
        assert_eq!(run(project, &archive, "cat /usr/share/own/file").stdout(), "of the image\n");
    });
}

#[test]
fn what_is_explained_is_the_images() {
    each(|project| {
        let (directory, archive) = tiny(project);
        let explain = |image: &Path, path: &Path| {
            let image = image.to_str().unwrap();
            let words = ["policy", "explain", "--image", image, path.to_str().unwrap()];
            Ran(project.atoll(&words).output().unwrap()).stdout()
        };
        let read = |text: &str| text.contains("read  yes");
        assert!(read(&explain(&directory, &directory.join("usr/share/own/file"))));
        for image in [&directory, &archive] {
            assert!(!read(&explain(image, Path::new("/usr/bin/env"))));
        }
        assert!(read(&explain(Path::new("host"), Path::new("/usr/bin/env"))));
    });
}
