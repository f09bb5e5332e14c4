//! Many callers at once: what is on the host afterwards is what is listed.

use super::support::{socket, state, try_ask};
use super::{Answer, Served, each, wire};
use atoll_testkit::process::wait_until;
use atoll_testkit::run::Project;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

/// The sandboxes that have something below this directory of the host's.
fn directories(place: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(place) else { return BTreeSet::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("sbx_")).collect()
}

/// The sandboxes that have a process: one that sees the sandbox's directory mounted.
fn with_processes(project: &Project) -> BTreeSet<String> {
    let place = format!("{}/", state(project).join("sandboxes").display());
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        // Those that have ended meanwhile, and those that are no processes.
        let Ok(mounts) = std::fs::read_to_string(entry.path().join("mountinfo")) else { continue };
        for (at, _) in mounts.match_indices(&place) {
            let rest = &mounts[at + place.len()..];
            found.extend(rest.get(..24).filter(|name| name.starts_with("sbx_")).map(str::to_owned));
        }
    }
    found
}

/// The sandboxes that have a control group, anywhere.
fn with_groups(known: &BTreeSet<String>, place: &Path, found: &mut BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(at) = name.find("sbx_")
            && let Some(id) = name.get(at..at + 24)
        {
            // Others have sandboxes too.
            found.extend(known.get(id).cloned());
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            with_groups(known, &entry.path(), found);
        }
    }
}

fn listed(served: &Served<'_>) -> BTreeSet<String> {
    let answer = served.ask("GET", "/v1/sandboxes?page_count=1000", None);
    let all = answer.body["sandboxes"].as_array().unwrap().clone();
    all.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_burst_of_which_a_third_is_given_up_leaves_what_is_listed() {
    each(|project| {
        let served = Served::start(project, &["--sandboxes-max", "60"]);
        let ever = std::sync::Mutex::new(BTreeSet::new());
        let answers: Vec<Option<Answer>> = std::thread::scope(|threads| {
            let callers: Vec<_> = (0..100_u64)
                .map(|number| {
                    let (served, ever) = (&served, &ever);
                    threads.spawn(move || {
                        let body = json!({ "name": format!("box-{number}") }).to_string();
                        if number % 3 > 0 {
                            let answer = served.create(&format!("box-{number}"));
                            ever.lock()
                                .unwrap()
                                .extend(answer.body["id"].as_str().map(str::to_owned));
                            return Some(answer);
                        }
                        let headers = format!(
                            "content-type: application/json\r\ncontent-length: {}\r\n",
                            body.len()
                        );
                        let mut stream = served.begin("POST", "/v1/sandboxes", &headers);
                        stream.write_all(body.as_bytes()).unwrap();
                        // Goes away somewhere in the middle, or has an answer first.
                        stream
                            .set_read_timeout(Some(Duration::from_millis(1 + number * 3)))
                            .unwrap();
                        stream.read(&mut [0; 1]).unwrap_or_default();
                        None
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        let mut made = 0;
        for answer in answers.into_iter().flatten() {
            match answer.status {
                201 => made += 1,
                429 => assert_eq!(answer.body["error"]["code"], "capacity", "{answer:?}"),
                _ => panic!("{answer:?}"),
            }
        }
        assert!((1..=60).contains(&made), "{made}");
        let place = state(project).join("sandboxes");
        wait_until("what was given up is gone", || {
            let states = served.ask("GET", "/v1/sandboxes?page_count=1000", None).body;
            let all = states["sandboxes"].as_array().unwrap();
            all.iter().all(|one| one["state"] == "running")
                && directories(&place) == listed(&served)
        });
        let listed = listed(&served);
        assert!((made..=60).contains(&listed.len()), "{made} of {}", listed.len());
        wait_until("their processes are gone", || with_processes(project) == listed);
        let mut known = ever.into_inner().unwrap();
        known.extend(listed.clone());
        let mut groups = BTreeSet::new();
        with_groups(&known, Path::new("/sys/fs/cgroup"), &mut groups);
        assert!(groups.is_subset(&listed), "{groups:?}");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&*place.to_string_lossy()), "{mounts}");
        // And as much can be made again as was given up.
        let more = (0..60 - listed.len()).map(|number| served.create(&format!("more-{number}")));
        assert!(more.map(|answer| answer.status).all(|status| status == 201));
        assert_eq!(served.create("too-many").status, 429);
        for id in super::many::listed(&served) {
            assert_eq!(served.ask("DELETE", &format!("/v1/sandboxes/{id}"), None).status, 200);
        }
        // A deletion is answered before the last of it is gone.
        wait_until("all files are gone", || directories(&place).is_empty());
        wait_until("all processes are gone", || with_processes(project).is_empty());
    });
}

#[test]
fn a_hundred_who_want_one_name_get_one_sandbox() {
    each(|project| {
        let served = Served::start(project, &[]);
        let answers: Vec<Answer> = std::thread::scope(|threads| {
            let ask =
                || try_ask(&socket(project), "PUT", "/v1/sandboxes/web", Some(&json!({}))).unwrap();
            let callers: Vec<_> = (0..100).map(|_| threads.spawn(ask)).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        let ids: BTreeSet<&str> =
            answers.iter().map(|answer| answer.body["id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
        let made = answers.iter().filter(|answer| answer.status == 201).count();
        assert_eq!(made, 1, "made by one of them");
        assert!(answers.iter().all(|answer| answer.status == 200 || answer.status == 201));
        assert_eq!(listed(&served).len(), 1);
        assert_eq!(directories(&state(project).join("sandboxes")).len(), 1);
    });
}

#[test]
fn hundreds_of_streams_that_are_dropped_leave_no_descriptor() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let descriptors = || {
            let place = format!("/proc/{}/fd", served.child.id());
            std::fs::read_dir(place).unwrap().count()
        };
        let ask = |number: u32| {
            let id = format!("exe_{number:020}");
            let body = json!({ "id": id, "command": ["echo", "x"] }).to_string();
            let headers = format!(
                "accept: text/event-stream\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            );
            let mut stream = served.begin("POST", "/v1/sandboxes/web/execs", &headers);
            stream.write_all(body.as_bytes()).unwrap();
            let answer = wire::answer(stream).unwrap();
            assert_eq!(answer.status, 200, "{number}");
        };
        (0..50).for_each(ask);
        let health = || served.ask("GET", "/v1/sandboxes/web/health", None).body;
        wait_until("rest", || health()["guest"]["running_execs"] == 0);
        let (before, inside) =
            (descriptors(), health()["guest"]["descriptors"]["used"].as_u64().unwrap());
        (50..250).for_each(ask);
        wait_until("descriptors come back", || descriptors() <= before + 5);
        wait_until("those inside come back", || {
            health()["guest"]["descriptors"]["used"].as_u64().unwrap() <= inside + 5
        });
    });
}
