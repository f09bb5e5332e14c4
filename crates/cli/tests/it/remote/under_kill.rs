//! The server is killed while clients come and go, again and again.

use super::super::serve::support::{log, state};
use super::{Served, command, each, objects, said};
use atoll_testkit::run::Project;
use std::process::{Child, Stdio};

const KILLS: usize = 20;
const CLIENTS: usize = 10;
const NAMES: usize = 50;

/// What a client does in one go: through the real program, whatever comes of it.
fn client(project: &Project, number: usize) -> Child {
    let script = format!(
        "i={number}; while ! test -e ../outside/enough; do i=$((i + 7)); n=n$((i % {NAMES})); \
         $A create $n --get; $A stop $n; $A start $n; $A delete $n; done"
    );
    let mut shell = command(project, &[]);
    let program = shell.get_program().to_owned();
    let host = shell.get_envs().find(|(name, _)| *name == "ATOLL_HOST").unwrap();
    let host = host.1.unwrap().to_owned();
    shell = project.bare("sh");
    shell.args(["-c", &script]).env("A", program).env("ATOLL_HOST", host);
    shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_server_that_is_killed_leaves_nothing_unknown_behind() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        said(project, &["create", "stays"]);
        let clients: Vec<Child> = (0..CLIENTS).map(|number| client(project, number)).collect();
        for _ in 0..KILLS {
            // Something was done since the last one.
            let before = log(project).matches("answered").count();
            atoll_testkit::process::wait_until("work", || {
                log(project).matches("answered").count() > before + 5
            });
            served.kill();
            served.again();
        }
        std::fs::write(project.outside().join("enough"), "").unwrap();
        for mut client in clients {
            client.wait().unwrap();
        }
        // The one that nobody touched was taken up each time.
        assert_eq!(objects(project, &["show", "stays", "--json"])[0]["state"], "running");
        // Every name can be had and used, whatever became of it.
        for number in 0..NAMES {
            let name = format!("n{number}");
            let got = objects(project, &["create", &name, "--get", "--json"]);
            let id = got[0]["id"].as_str().unwrap();
            assert!(state(project).join("sandboxes").join(id).join("whole").exists());
            said(project, &["delete", &name]);
        }
        // And nothing is on the host that is not in the list.
        let listed = said(project, &["list", "-q"]);
        atoll_testkit::process::wait_until("removals", || {
            let entries = std::fs::read_dir(state(project).join("sandboxes")).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut left: Vec<String> = names.filter(|name| name.starts_with("sbx_")).collect();
            left.sort();
            left == listed.lines().collect::<Vec<_>>()
        });
    });
}
