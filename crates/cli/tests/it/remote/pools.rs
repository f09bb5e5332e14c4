//! Pools by the command line: filled, given away, drained when their template is built anew, and
//! without a trace of who had a member before.

use super::{Served, ask, each, objects, said};
use atoll_testkit::internet::Internet;
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Project;
use rustix::process::Signal;

fn pool(project: &Project) -> serde_json::Value {
    objects(project, &["pool", "show", "web", "--json"])[0].clone()
}

/// Waits until so many members are ready and none is being made.
fn ready(project: &Project, count: u64) {
    wait_until("the pool is full", || {
        let pool = pool(project);
        pool["ready"] == count && pool["making"] == 0
    });
}

fn sh(project: &Project, sandbox: &str, script: &str) -> String {
    said(project, &["exec", sandbox, "--", "sh", "-c", script])
}

/// What `atoll create --json` says of the pool that a sandbox came of.
fn create(project: &Project, arguments: &[&str]) -> serde_json::Value {
    let all = [&["create", "--json", "--pool", "web"], arguments].concat();
    objects(project, &all)[0].clone()
}

#[test]
fn a_member_is_given_once_with_what_the_request_brings_and_nothing_of_another() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let made = said(project, &["pool", "create", "web", "--size", "2", "--env", "A=pool"]);
        assert_eq!(made, "web\n");
        ready(project, 2);
        assert_eq!(said(project, &["list", "-q"]), "");
        project.write("app/file", "brought along\n");
        let app = project.root().join("app");
        let arguments =
            ["one", "--env", "B=mine", "--label", "n=1", "--workspace", app.to_str().unwrap()];
        let one = create(project, &arguments);
        assert_eq!(one["pool"], serde_json::json!({"name": "web"}), "{one}");
        assert_eq!((&one["name"], &one["labels"]["n"]), (&"one".into(), &"1".into()));
        assert_eq!(
            sh(project, "one", "echo $A $B; cat workspace/file"),
            "pool mine\nbrought along\n"
        );
        // A shell that keeps its state has them too, and what it sets itself is not set back.
        let session = |text: &str| said(project, &["exec", "one", "--session", "s", "--", text]);
        assert_eq!(session("echo $B; export B=changed"), "mine\n");
        assert_eq!(session("echo $B"), "changed\n");
        sh(project, "one", "echo secret > ~/left; touch /tmp/left; sleep 300 >/dev/null 2>&1 &");
        ready(project, 2);
        let two = create(project, &["two"]);
        assert_ne!(one["id"], two["id"]);
        let look = "echo \"[$B]\"; ls -A ~ /tmp; ls /proc | grep -c '^[0-9]'";
        let found = sh(project, "two", look);
        let fresh = sh(project, said(project, &["create", "fresh"]).trim(), look);
        assert_eq!(found, fresh, "nothing in a member is of another sandbox");
        // The clock is right, however long it waited.
        let clock: i64 = sh(project, "two", "date +%s").trim().parse().unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        assert!((clock - i64::try_from(now).unwrap()).abs() <= 2, "{clock} and {now}");
        // Stopped and started it is as it was given.
        said(project, &["stop", "one"]);
        said(project, &["start", "one"]);
        assert_eq!(sh(project, "one", "echo $A $B; cat ~/left"), "pool mine\nsecret\n");
        let listed = said(project, &["pool", "list"]);
        let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!((row[0], row[1]), ("web", "host"), "{listed}");
        said(project, &["pool", "delete", "web"]);
        assert_eq!(said(project, &["list", "-q"]).lines().count(), 3);
        let gone = ask(project, &["create", "--pool", "web"]);
        assert_eq!(gone.code(), Some(1), "{}", gone.text());
        assert!(gone.stderr().contains("there is no pool web"), "{}", gone.text());
        said(project, &["delete", "one", "two", "fresh"]);
    });
}

#[test]
fn a_pool_of_a_template_has_only_members_of_its_latest_version() {
    each(|project| {
        let _served = Served::start(project, &[]);
        let build = |text: &str| {
            let steps = format!("[[steps]]\nrun = \"echo {text} > ~/version\"\n");
            project.write("t.toml", format!("name = \"t\"\n{steps}"));
            said(project, &["template", "build", "t.toml"])
        };
        assert_eq!(build("first"), "t@1\n");
        said(project, &["pool", "create", "web", "--size", "1", "--template", "t"]);
        ready(project, 1);
        create(project, &["one"]);
        assert_eq!(sh(project, "one", "cat version"), "first\n");
        ready(project, 1);
        assert_eq!(build("second"), "t@2\n");
        // Whether the old member is gone by then or not, nobody is given it.
        wait_until("a member of the new version", || {
            let made = ask(project, &["create", "two", "--pool", "web"]);
            made.code() == Some(0)
        });
        assert_eq!(sh(project, "two", "cat version"), "second\n");
        let shown = &objects(project, &["show", "two", "--json"])[0];
        assert_eq!((&shown["template"], &shown["pool"]["name"]), (&"t@2".into(), &"web".into()));
        assert!(shown["pool"].get("cold_because").is_none(), "{shown}");
        said(project, &["delete", "one", "two"]);
        said(project, &["pool", "delete", "web"]);
    });
}

#[test]
fn a_server_that_is_killed_leaves_no_member_and_fills_its_pools_again() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        said(project, &["pool", "create", "web", "--size", "3", "--or-cold"]);
        ready(project, 3);
        let one = create(project, &["one"]);
        served.signal(Signal::KILL);
        served.child.wait().unwrap();
        served.again();
        ready(project, 3);
        assert_eq!(said(project, &["list", "-q"]).trim(), one["id"].as_str().unwrap());
        assert_eq!(sh(project, "one", "echo here"), "here\n");
        let refused = ask(project, &["pool", "create", "web", "--size", "1"]);
        assert!(refused.stderr().contains("there is a pool web already"), "{}", refused.text());
        // What a member cannot become is made from the start, and says so.
        if super::volumes::flags(project)["volumes"].as_bool().unwrap() {
            said(project, &["volume", "create", "data"]);
            let two = create(project, &["two", "--volume", "data:/data"]);
            assert_eq!(two["pool"]["cold_because"], "volumes");
            assert_eq!(sh(project, "two", "touch /data/file"), "");
            said(project, &["delete", "two"]);
        }
        said(project, &["pool", "set", "web", "--size", "1"]);
        ready(project, 1);
        said(project, &["delete", "one"]);
        said(project, &["pool", "delete", "web"]);
    });
}

#[test]
fn a_member_reaches_what_its_own_request_says() {
    each(|project| {
        let internet = Internet::new();
        for name in ["a.test", "b.test"] {
            internet.name(name, &["127.0.0.1"]);
        }
        let site = internet.http(|_| (200, Vec::new(), b"here\n".to_vec()));
        let _served = Served::start_in(project, &internet);
        let (port, net) = (site.port, format!("127.0.0.1/32:{}", site.port));
        let host = |name: &str| format!("{name}:{port}");
        let flags = ["--allow-host", &host("a.test"), "--allow-host", &net];
        said(project, &[&["pool", "create", "web", "--size", "2"], &flags[..]].concat());
        ready(project, 2);
        let get = |sandbox: &str, name: &str| {
            let url = format!("http://{name}:{port}/");
            ask(project, &["exec", sandbox, "--", "curl", "-sS", &url]).stdout()
        };
        // As the pool says where nothing else is said.
        assert_eq!(create(project, &["one"])["pool"], serde_json::json!({"name": "web"}));
        assert_eq!(get("one", "a.test"), "here\n");
        assert!(get("one", "b.test").contains("not-allowed"));
        let own = ["two", "--allow-host", &host("b.test"), "--allow-host", &net];
        assert_eq!(create(project, &own)["pool"], serde_json::json!({"name": "web"}));
        assert_eq!(get("two", "b.test"), "here\n");
        assert!(get("two", "a.test").contains("not-allowed"));
        said(project, &["delete", "one", "two"]);
        said(project, &["pool", "delete", "web"]);
    });
}
