//! Sandboxes that fall asleep by themselves, and what wakes them.

use super::execs::{printed, run};
use super::preview::curl;
use super::{Served, each};
use atoll_testkit::process::wait_until;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Far more than anything here takes, and far less than what it must not wait for.
const SOON: Duration = Duration::from_secs(20);

fn create(served: &Served<'_>, request: &Value) {
    let made = served.ask("POST", "/v1/sandboxes", Some(request));
    assert_eq!(made.status, 201, "{made:?}");
}

fn falls_asleep(served: &Served<'_>) {
    wait_until("it is stopped by itself", || served.state("web") == "stopped");
    let told = served.ask("GET", "/v1/sandboxes/web", None).body;
    assert!(told["cause"].as_str().is_some_and(|cause| cause.contains("idle")), "{told}");
}

#[test]
fn a_request_wakes_what_fell_asleep_and_waits_for_its_service() {
    each(|project| {
        let served = Served::start(project, &["--listen", "127.0.0.1:0"]);
        // It takes a while to listen, so a request that does not wait fails.
        let shell = "cd /tmp && echo page > index.html && sleep 1 && \
                     exec python3 -m http.server --bind 127.0.0.1 8000";
        let service = json!({ "name": "web", "shell": shell, "ready": { "port": 8000 } });
        create(&served, &json!({ "name": "web", "services": [service] }));
        let exposed = served.ask("POST", "/v1/sandboxes/web/ports/8000/expose", Some(&json!({})));
        let preview = exposed.body;
        assert_eq!(curl(&preview, "url", &[], "").1, "page\n");
        assert_eq!(served.ask("POST", "/v1/sandboxes/web/stop", None).status, 200);
        assert_eq!(served.state("web"), "stopped");
        for key in ["url", "path_url"] {
            let (status, page, head) = curl(&preview, key, &[], "");
            assert_eq!((status, &page), (200, &json!("page\n")), "{head}");
            assert_eq!(served.state("web"), "running");
            assert_eq!(served.ask("POST", "/v1/sandboxes/web/stop", None).status, 200);
        }
        // Of many that come at once, all are served, by one start.
        let pages: Vec<u16> = std::thread::scope(|threads| {
            let ask = || curl(&preview, "url", &[], "").0;
            let all: Vec<_> = (0..10).map(|_| threads.spawn(ask)).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(pages, [200; 10]);
    });
}

#[test]
fn a_service_that_cannot_start_is_told_to_whoever_asks_for_its_page() {
    each(|project| {
        let served = Served::start(project, &["--listen", "127.0.0.1:0"]);
        let service = json!({ "name": "web", "ready": { "port": 8000 }, "ready_timeout_ms": 1000,
            "restart": "never", "shell": "[ -e broken ] && exit 3; touch broken; cd /tmp && \
                exec python3 -m http.server --bind 127.0.0.1 8000" });
        create(&served, &json!({ "name": "web", "services": [service] }));
        let exposed = served.ask("POST", "/v1/sandboxes/web/ports/8000/expose", Some(&json!({})));
        let preview = exposed.body;
        assert_eq!(curl(&preview, "url", &[], "").0, 200);
        assert_eq!(served.ask("POST", "/v1/sandboxes/web/stop", None).status, 200);
        let began = Instant::now();
        let (status, told, head) = curl(&preview, "url", &[], "");
        assert_eq!((status, &told["error"]["code"]), (503, &json!("not_ready")), "{head}: {told}");
        assert!(told["error"]["message"].as_str().unwrap().contains("web failed"), "{told}");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    });
}

#[test]
fn a_command_holds_awake_and_nothing_else_does() {
    each(|project| {
        let served = Served::start(project, &[]);
        create(&served, &json!({ "name": "web", "lifecycle": { "idle_stop_ms": 500 } }));
        // Without a word to anybody for several times as long as that.
        let ran = run(&served, &json!({ "shell": "sleep 2; echo awake" }));
        assert_eq!(printed(&ran), "awake\n");
        assert_eq!(ran["exec"]["ended"]["exit_code"], 0, "{ran}");
        // Nobody asks any more but for its state, which is no work.
        falls_asleep(&served);
        // One that nobody waits for holds it as well, and is named.
        let ran = run(&served, &json!({ "shell": "sleep 600 & echo begun" }));
        assert_eq!(printed(&ran), "begun\n");
        let long =
            json!({ "id": "exe_0000000000000000cafe", "name": "wedged", "shell": "sleep 600" });
        assert_eq!(super::execs::post(&served, "execs", &long).status, 201);
        wait_until("what holds it is named", || {
            let told = served.ask("GET", "/v1/sandboxes/web", None).body;
            told["holds"].to_string().contains("exe_0000000000000000cafe")
        });
        assert_eq!(
            super::execs::post(
                &served,
                "execs/exe_0000000000000000cafe/cancel",
                &json!({ "grace_ms": 0 })
            )
            .status,
            200
        );
        falls_asleep(&served);
    });
}

#[test]
fn the_idle_time_can_be_set_late_and_what_is_above_a_limit_is_refused_by_its_name() {
    each(|project| {
        let served = Served::start(project, &[]);
        create(&served, &json!({ "name": "web" }));
        let set = |value: Value| served.ask("PUT", "/v1/sandboxes/web/lifecycle", Some(&value));
        let set_late = set(json!({ "idle_stop_ms": 100 }));
        assert_eq!(set_late.status, 200, "{set_late:?}");
        falls_asleep(&served);
        for (path, request, field) in [
            ("execs?wait_ms=3600001", json!({ "shell": "true" }), "wait_ms"),
            (
                "execs",
                json!({ "shell": "true", "timeout_ms": 9_007_199_254_740_992_u64 }),
                "timeout_ms",
            ),
            ("execs", json!({ "shell": "true", "keep_bytes": 1 << 30 }), "keep_bytes"),
            ("execs/exe_0000000000000000cafe/cancel", json!({ "grace_ms": 3_600_001 }), "grace_ms"),
            ("wait", json!({ "for": { "port": 0 }, "timeout_ms": 1 }), "for.port"),
            ("wait", json!({ "for": { "port": 80 }, "timeout_ms": 3_600_001 }), "timeout_ms"),
        ] {
            let refused = super::execs::post(&served, path, &request);
            let error = &refused.body["error"];
            assert_eq!(
                (refused.status, &error["details"]["field"]),
                (400, &json!(field)),
                "{refused:?}"
            );
        }
        assert_eq!(served.state("web"), "stopped", "what is refused wakes nobody");
    });
}

#[test]
fn one_whose_state_is_damaged_says_so_and_can_be_deleted() {
    each(|project| {
        let served = Served::start(project, &[]);
        let made = served.create("web").body;
        assert_eq!(served.ask("POST", "/v1/sandboxes/web/stop", None).status, 200);
        let place =
            super::support::state(project).join("sandboxes").join(made["id"].as_str().unwrap());
        std::fs::remove_dir_all(place.join("top/home")).unwrap();
        std::fs::write(place.join("top/home"), "no directory").unwrap();
        let refused = served.ask("POST", "/v1/sandboxes/web/resume", None);
        assert!(refused.status >= 400, "{refused:?}");
        let error = &refused.body["error"];
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{refused:?}");
        // Paths of the host are the operator's business.
        assert!(!refused.body.to_string().contains(&*place.to_string_lossy()), "{refused:?}");
        assert!(["stopped", "failed"].contains(&&*served.state("web")), "{}", served.state("web"));
        let command =
            super::execs::post(&served, "execs?wait_ms=1000", &json!({ "shell": "true" }));
        assert!(command.status >= 400, "{command:?}");
        assert_eq!(served.ask("DELETE", "/v1/sandboxes/web", None).status, 200);
        wait_until("nothing is left of it", || !place.exists());
        assert_eq!(served.create("web").status, 201);
    });
}
