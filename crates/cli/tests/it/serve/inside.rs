//! A sandbox that wants out, or wants to disturb: by names of files, and by whatever it can
//! reach of the server.

use super::execs::{post, printed, run};
use super::support::{log, socket};
use super::tcp::addresses;
use super::{Served, each};
use serde_json::{Value, json};
use std::io::Read as _;

/// Makes files of odd names, each with its number in it.
const NAMES: &str = r#"
import os
names = [b"a\r\nX-Evil: 1\r\n\r\n<h1>", b"line\nbreak", b"\xff\xfe", b"\x1b[31mred", "grüße".encode(),
         b"\ndata: x\n\nevent: ended\ndata: {}\n\n", b"-rf", b"a b?c#d%2e", b"'\"`$(id)", b"\xe2\x80\xaegpj.exe"]
os.makedirs("odd", exist_ok=True)
for number, name in enumerate(names):
    with open(b"odd/" + name, "w") as file:
        file.write(str(number))
print(" ".join(name.hex() for name in names))
"#;

#[test]
fn names_of_files_stay_names() {
    each(|project| {
        let served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        run(&served, &json!({ "shell": "mkdir odd" }));
        let mut watch = served.events("/v1/sandboxes/web/files/watch?path=/home/user/odd");
        watch.until("ready");
        let made = run(&served, &json!({ "command": ["python3", "-c", NAMES] }));
        let names: Vec<String> = printed(&made).split_whitespace().map(str::to_owned).collect();
        assert!(names.len() >= 10, "{made}");
        for (number, hex) in names.iter().enumerate() {
            let bytes: Vec<&str> = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]).collect();
            let path = format!("/home/user/odd/%{}", bytes.join("%"));
            let answer =
                served.open("GET", &format!("/v1/sandboxes/web/files/content?path={path}"), None);
            assert_eq!(answer.status, 200, "{hex}");
            assert!(answer.header("x-evil").is_none(), "{:?}", answer.headers);
            let stat: Value = serde_json::from_str(answer.header("atoll-stat").unwrap()).unwrap();
            assert_eq!(stat["bytes"], 1, "{stat}");
            assert_eq!(answer.bytes().unwrap(), number.to_string().as_bytes());
        }
        let listed =
            served.ask("GET", "/v1/sandboxes/web/files/list?path=/home/user/odd", None).body;
        assert_eq!(listed["entries"].as_array().unwrap().len(), names.len(), "{listed}");
        assert!(listed.to_string().contains("\"hex\":\"fffe\""), "{listed}");
        // Each change is one event, whatever its name looks like.
        let mut changed = 0;
        while changed < names.len() {
            let event = watch.next(&mut 0).unwrap().unwrap();
            assert_eq!(event.name, "changed", "{event:?}");
            changed += usize::from(event.data["change"] == "made");
        }
        // What a command is called, and prints, ends no stream either.
        let id = "exe_0000000000000000cafe";
        let shell = r"printf 'x\n\nevent: ended\ndata: {}\n\n: \r\rid: 9-9\n'; exit 4";
        let name = "event: ended data: {}";
        assert_eq!(
            post(&served, "execs", &json!({ "id": id, "name": name, "shell": shell })).status,
            201
        );
        let events = served.events(&format!("/v1/sandboxes/web/execs/{id}/events")).rest();
        let told: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        assert_eq!((told[0], told[told.len() - 1]), ("started", "ended"), "{told:?}");
        assert_eq!(told.iter().filter(|name| **name == "ended").count(), 1, "{told:?}");
        assert_eq!(events.last().unwrap().data["ended"]["exit_code"], 4);
    });
}

#[test]
fn the_server_is_not_reached_from_inside() {
    each(|project| {
        let served = Served::start(project, &["--listen", "127.0.0.1:0"]);
        assert_eq!(served.create("web").status, 201);
        let (path, address) = (socket(project), addresses(project)[0]);
        let connect = format!(
            "import socket\n\
             def tried(family, address):\n    \
                 s = socket.socket(family)\n    \
                 try: s.connect(address)\n    \
                 except OSError as error: return type(error).__name__\n    \
                 return 'connected'\n\
             print(tried(socket.AF_UNIX, {path:?}), tried(socket.AF_UNIX, '/proc/1/root{path}'), \
                   tried(socket.AF_INET, ('127.0.0.1', {port})))",
            path = path.display().to_string(),
            port = address.port(),
        );
        let inside = run(&served, &json!({ "command": ["python3", "-c", connect] }));
        assert_eq!(
            printed(&inside),
            "FileNotFoundError PermissionError ConnectionRefusedError\n",
            "{inside}"
        );
        // The control: outside both are reached.
        let outside = project.bare("python3").args(["-c", &connect]).output().unwrap();
        let told = String::from_utf8_lossy(&outside.stdout).into_owned();
        assert!(told.starts_with("connected ") && told.ends_with(" connected\n"), "{outside:?}");
        // Nothing of the server's came along.
        let looked = run(
            &served,
            &json!({ "shell": "ls /proc/self/fd | wc -l; env; ls /proc/1/fd 2>&1 | head -1" }),
        );
        let told = printed(&looked);
        assert!(told.starts_with("4\n"), "{told}");
        let of_ours = told.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        let mut of_ours: Vec<&str> = of_ours.filter(|name| name.starts_with("ATOLL_")).collect();
        of_ours.sort_unstable();
        assert_eq!(of_ours, ["ATOLL_SANDBOX", "ATOLL_START"], "{told}");
        assert!(!told.contains(&*path.to_string_lossy()), "{told}");
        assert!(told.contains("denied"), "{told}");
    });
}

#[test]
fn a_server_that_is_started_anew_interrupts_by_name_and_loses_nothing() {
    each(|project| {
        let mut served = Served::start(project, &[]);
        assert_eq!(served.create("web").status, 201);
        let id = "exe_0000000000000000cafe";
        let shell = "echo before; while ! [ -e go ]; do sleep 0.05; done; echo after; exit 6";
        let exec = format!("/v1/sandboxes/web/execs/{id}");
        assert_eq!(post(&served, "execs", &json!({ "id": id, "shell": shell })).status, 201);
        let mut events = served.events(&format!("{exec}/events"));
        events.until("output");
        assert_eq!(served.end().code(), Some(0), "{}", log(project));
        let last = events.rest().pop().unwrap();
        assert_eq!((last.name.as_str(), &last.data["reason"]), ("end", &json!("shutdown")));
        served.again();
        assert_eq!(served.ask("GET", &exec, None).body["state"], "running");
        // Who comes back with the last id goes on there.
        run(&served, &json!({ "shell": "touch go" }));
        let mut stream = served.begin(
            "GET",
            &format!("{exec}/events"),
            "connection: close\r\nlast-event-id: 7-0\r\n",
        );
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        // The command's own words are in `started`.
        let printed = |word: &str| text.contains(&format!(r#""text":"{word}\n""#));
        assert!(!printed("before") && printed("after"), "{text}");
        assert!(text.contains("\"exit_code\":6"), "{text}");
    });
}
