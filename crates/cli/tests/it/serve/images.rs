//! Images from Debian's own registry, made by other people's tools, by root and by an ordinary
//! user.

use super::support::{log, socket, state};
use super::{Served, each};
use atoll_testkit::image::copy_programs;
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Project;
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Debian's registry, on loopback.
struct Registry {
    child: Child,
    address: String,
    files: tempfile::TempDir,
}

impl Registry {
    /// Starts one, unless a tool is missing, which is said.
    fn start() -> Option<Self> {
        let has = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        if !["docker-registry", "skopeo", "umoci"].iter().all(has) {
            let text = "docker-registry, skopeo or umoci is not installed";
            atoll_testkit::skip::skip("image-registry", text);
            return None;
        }
        let files = tempfile::tempdir().unwrap();
        let address = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().to_string()
        };
        let config = files.path().join("config.yml");
        let content = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n",
            files.path().join("kept").display()
        );
        std::fs::write(&config, content).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        wait_until("the registry", || TcpStream::connect(&address).is_ok());
        Some(Self { child, address, files })
    }

    /// Makes an image of two layers, the second of which takes something away, and pushes it.
    fn push(&self, tag: &str) -> String {
        let base = self.files.path().join(format!("base-{tag}"));
        let above = self.files.path().join(format!("above-{tag}"));
        let layout = self.files.path().join("layout");
        for dir in ["etc", "opt", "tmp", "var"] {
            std::fs::create_dir_all(base.join(dir)).unwrap();
        }
        copy_programs(&base, &["sh", "cat", "ls", "id", "touch", "pwd", "rm"]);
        std::fs::write(base.join("etc/os-release"), format!("ID=tiny-{tag}\n")).unwrap();
        std::fs::write(base.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").unwrap();
        std::fs::write(base.join("opt/gone"), "1").unwrap();
        std::fs::write(base.join("opt/kept"), "2").unwrap();
        std::fs::create_dir_all(above.join("new")).unwrap();
        std::fs::write(above.join("new/file"), "3").unwrap();
        let image = format!("{}:{tag}", layout.display());
        let umoci = |arguments: &[&str]| {
            let mut command = Command::new("umoci");
            done(command.args(arguments).output().unwrap());
        };
        if !layout.exists() {
            umoci(&["init", "--layout", layout.to_str().unwrap()]);
        }
        umoci(&["new", "--image", &image]);
        umoci(&["insert", "--rootless", "--image", &image, base.to_str().unwrap(), "/"]);
        umoci(&["insert", "--rootless", "--image", &image, above.to_str().unwrap(), "/"]);
        umoci(&["insert", "--image", &image, "--whiteout", "/opt/gone"]);
        let config = ["config", "--image", &image, "--config.env", "FROM_IMAGE=yes"];
        umoci(&[&config[..], &["--config.workingdir", "/srv/here"]].concat());
        let name = format!("{}/team/tools:{tag}", self.address);
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]);
        skopeo.arg(format!("oci:{image}")).arg(format!("docker://{name}"));
        done(skopeo.env("TMPDIR", self.files.path()).output().unwrap());
        format!("http://{name}")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[track_caller]
fn done(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// A command that asks the server of the test.
fn atoll(project: &Project, arguments: &[&str]) -> Output {
    let host = format!("unix://{}", socket(project).display());
    let mut command = project.atoll(arguments);
    command.env("ATOLL_HOST", host).stdin(Stdio::null()).output().unwrap()
}

/// What a line of shell prints in a sandbox.
#[track_caller]
fn sh(project: &Project, sandbox: &str, script: &str) -> String {
    done(atoll(project, &["exec", sandbox, "--", "sh", "-c", script]))
}

/// Names of layers that are kept.
fn layers(project: &Project) -> usize {
    let kept = std::fs::read_dir(state(project).join("sandboxes/image-layers")).unwrap();
    let names = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("sha256-")).count()
}

fn lacks_writable_root(served: &Served<'_>) -> bool {
    let told = served.ask("GET", "/v1/capabilities", None).body.to_string();
    let has = told.contains(r#""writable_root":true"#);
    if !has {
        let text = "no overlay in the directory for temporary files";
        atoll_testkit::skip::skip("image-registry", text);
    }
    !has
}

#[test]
fn a_sandbox_is_made_of_an_image_that_was_pulled() {
    let Some(registry) = Registry::start() else { return };
    let name = registry.push("1");
    each(|project| {
        let served = Served::start(project, &[]);
        if lacks_writable_root(&served) {
            return;
        }
        let text = done(atoll(project, &["image", "pull", &name]));
        assert!(text.starts_with(&name), "{text}");
        let list: Value =
            serde_json::from_str(&done(atoll(project, &["image", "list", "--json"]))).unwrap();
        assert_eq!(list["names"][0]["name"], name.as_str(), "{list}");
        assert_eq!(list["layers"].as_array().unwrap().len(), 3);
        assert_eq!(list["config"]["workdir"], "/srv/here");
        done(atoll(project, &["create", "web", "--image", &name, "--pull", "never"]));
        let script = "cat /etc/os-release; echo $FROM_IMAGE $HOME; pwd; cat /new/file; ls /opt; \
                      echo changed > kept; echo x > /home/user/at-home";
        let seen = sh(project, "web", script);
        assert_eq!(seen, "ID=tiny-1\nyes /home/user\n/srv/here\n3kept\n");
        assert!(sh(project, "web", "id").contains("(user)"));
        done(atoll(project, &["stop", "web"]));
        done(atoll(project, &["start", "web"]));
        assert_eq!(sh(project, "web", "cat kept /home/user/at-home"), "changed\nx\n");
        // What one wrote, another does not see; it is made of the same layers.
        done(atoll(project, &["create", "other", "--image", &name]));
        assert_eq!(sh(project, "other", "ls; ls /opt"), "kept\n");
        assert_eq!(layers(project), 3);
        // As long as there is one of them, the image stays.
        let refused = atoll(project, &["image", "delete", &name]);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains("is used by sbx_"), "{text}");
        done(atoll(project, &["image", "prune", "--all"]));
        assert_eq!(layers(project), 3);
        done(atoll(project, &["delete", "web", "other"]));
        wait_until("it can be deleted", || {
            atoll(project, &["image", "delete", &name]).status.success()
        });
        assert_eq!(layers(project), 0);
        assert_eq!(done(atoll(project, &["image", "list", "--json"])), "");
    });
}

#[test]
fn a_sandbox_has_its_image_pulled() {
    let Some(registry) = Registry::start() else { return };
    let (name, absent) =
        (registry.push("2"), format!("http://{}/team/tools:none", registry.address));
    let file = registry.files.path().join("saved.tar");
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["--insecure-policy", "copy", "--quiet"]).env("TMPDIR", registry.files.path());
    skopeo.arg(format!("oci:{}:2", registry.files.path().join("layout").display()));
    done(skopeo.arg(format!("docker-archive:{}:saved:1", file.display())).output().unwrap());
    each(|project| {
        let served = Served::start(project, &[]);
        if lacks_writable_root(&served) {
            return;
        }
        let wanted = |image: &str, pull: &str| json!({ "image": image, "image_pull": pull });
        let create = |image: &str, pull: &str| {
            served.ask("POST", "/v1/sandboxes", Some(&wanted(image, pull)))
        };
        let answer = create(&name, "never");
        assert_eq!(answer.status, 404, "{answer:?}");
        assert_eq!(answer.body["error"]["details"]["reason"], "image-not-here");
        let answer = create(&name, "missing");
        assert_eq!(answer.status, 201, "{answer:?}: {}", log(project));
        let timeline = &answer.body["timeline"];
        assert!(
            timeline["image_ready_us"].as_u64() <= timeline["allocated_us"].as_u64(),
            "{timeline}"
        );
        assert!(timeline["image_ready_us"].is_u64(), "{timeline}");
        // A pull that cannot work is told at once, and takes no more than a moment each time.
        let began = Instant::now();
        for _ in 0..20 {
            let answer = create(&absent, "missing");
            assert_eq!(answer.status, 404, "{answer:?}");
            assert_eq!(answer.body["error"]["details"]["reason"], "image-not-found");
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        let listed = served.ask("GET", "/v1/sandboxes", None);
        assert_eq!(listed.body["sandboxes"].as_array().unwrap().len(), 1, "{listed:?}");
        // The same from a file, as `docker save` writes it.
        let copy = project.outside().join("saved.tar");
        std::fs::copy(&file, &copy).unwrap();
        project_reads(&copy);
        let path = copy.to_str().unwrap();
        done(atoll(project, &["image", "import", path]));
        done(atoll(project, &["create", "saved", "--image", path]));
        assert_eq!(sh(project, "saved", "pwd; cat /etc/os-release"), "/srv/here\nID=tiny-2\n");
        assert_eq!(layers(project), 3, "they are the same layers");
    });
}

fn project_reads(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
}
