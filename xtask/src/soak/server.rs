//! A server that lives for long: commands in a sandbox, and sandboxes that come and go, in
//! every way that the API has.

use crate::served::{Client, Served, delete, path, run};
use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};

/// Clients that ask at once.
const CLIENTS: u32 = 4;

/// One of the clients.
struct Asker<'a> {
    served: &'a Served,
    client: Client,
    index: u32,
}

/// What is done so many times in all, by several clients.
fn shared_out(
    served: &Served,
    count: u32,
    act: impl Fn(&mut Asker<'_>, u32) -> Result<()> + Sync,
) -> Result<()> {
    let (next, act) = (&AtomicU32::new(0), &act);
    let work = move |index| -> Result<()> {
        let mut asker = Asker { served, client: served.client()?, index };
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(());
            }
            act(&mut asker, number).with_context(|| format!("number {number}"))?;
        }
    };
    std::thread::scope(|threads| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|index| threads.spawn(move || work(index))).collect();
        let ended = clients.into_iter().map(|client| client.join().expect("no thread panics"));
        ended.fold(Ok(()), Result::and)
    })
}

/// A sandbox in which commands are run.
pub(super) fn sandbox(served: &Served) -> Result<Value> {
    served.client()?.ask("POST", "/v1/sandboxes", Some(&json!({ "name": "soak" })))
}

/// Runs so many commands in it.
pub(super) fn execs(served: &Served, sandbox: &Value, count: u32) -> Result<()> {
    shared_out(served, count, |asker, number| {
        let kind = EXECS[usize::try_from(number)? % EXECS.len()];
        kind(asker, sandbox)
    })
}

type Exec = fn(&mut Asker<'_>, &Value) -> Result<()>;

/// Every way of running a command.
const EXECS: [Exec; 10] = [
    |Asker { client, .. }, sandbox| ended(client, sandbox, &json!({ "command": ["/bin/true"] })),
    |Asker { client, .. }, sandbox| {
        ended(client, sandbox, &json!({ "shell": "echo out; echo err >&2", "env": { "A": "b" } }))
    },
    |Asker { client, index, .. }, sandbox| {
        let session = format!("session-{index}");
        ended(client, sandbox, &json!({ "shell": "cd /tmp; A=b", "session": session }))
    },
    |Asker { client, .. }, sandbox| {
        let terminal = json!({ "rows": 24, "columns": 80 });
        ended(client, sandbox, &json!({ "shell": "tty", "terminal": terminal }))
    },
    |Asker { client, .. }, sandbox| {
        let request = json!({ "shell": "sleep 1000 & sleep 1000", "timeout_ms": 1 });
        let result = client.ask("POST", &path(sandbox, "/execs?wait_ms=10000"), Some(&request))?;
        let cause = &result["exec"]["ended"]["cause"];
        ensure!(cause == "timed_out", "not in time: {result}");
        Ok(())
    },
    // Followed to its end.
    |Asker { client, .. }, sandbox| {
        let request = json!({ "shell": "echo one; echo two" });
        let told = client.follow(&path(sandbox, "/execs"), &request)?;
        ensure!(told.contains("event: ended") || told.contains("event:ended"), "no end: {told}");
        Ok(())
    },
    // Followed by a client that goes away in the middle, and takes the command along.
    |Asker { served, .. }, sandbox| {
        let request = json!({ "shell": "yes", "on_disconnect": "kill" });
        served.client()?.begin_to_follow(&path(sandbox, "/execs"), &request)
    },
    // Its output read as it is, by a client that goes away in the middle too.
    |Asker { served, client, .. }, sandbox| {
        let request = json!({ "shell": "yes | head -c 300000", "name": "long" });
        let exec = client.ask("POST", &path(sandbox, "/execs"), Some(&request))?;
        let of = |rest: &str| path(sandbox, &format!("/execs/{}{rest}", id(&exec)));
        served.client()?.begin_to_read(&of("/stdout?follow=true"))?;
        let length = client.drain(&of("/stdout?follow=true"))?;
        ensure!(length == 300_000, "{length} bytes came");
        client.ask("DELETE", &of(""), None).map(drop)
    },
    // Fed, and ended by a signal.
    |Asker { client, .. }, sandbox| {
        let request = json!({ "command": ["/bin/cat"], "stdin": "pipe" });
        let exec = client.ask("POST", &path(sandbox, "/execs"), Some(&request))?;
        let of = |rest: &str| path(sandbox, &format!("/execs/{}{rest}", id(&exec)));
        client.ask("POST", &of("/stdin?keep_open=true"), Some(&json!("fed")))?;
        client.ask("POST", &of("/cancel"), Some(&json!({ "grace_ms": 1000 }))).map(drop)
    },
    // Files and ports, which are processes of the guest's own.
    |Asker { client, .. }, sandbox| {
        client.put(&path(sandbox, "/files/content?path=/home/user/file"), b"text")?;
        client.drain(&path(sandbox, "/files/content?path=/home/user/file"))?;
        client.ask("GET", &path(sandbox, "/ports"), None).map(drop)
    },
];

fn id(exec: &Value) -> &str {
    exec["id"].as_str().unwrap_or_default()
}

/// Runs a command to its end.
fn ended(client: &mut Client, sandbox: &Value, request: &Value) -> Result<()> {
    run(client, sandbox, request).map(drop)
}

/// Makes and deletes so many sandboxes.
pub(super) fn cycles(served: &Served, count: u32) -> Result<()> {
    let capabilities = served.client()?.ask("GET", "/v1/capabilities", None)?;
    let can = |flag: &str| capabilities["flags"][flag] == true;
    let kinds: Vec<Cycle> =
        CYCLES.iter().filter(|(flag, _)| flag.is_none_or(can)).map(|(_, kind)| *kind).collect();
    shared_out(served, count, |asker, number| {
        let kind = kinds[usize::try_from(number)? % kinds.len()];
        kind(&mut asker.client, number)
    })
}

type Cycle = fn(&mut Client, u32) -> Result<()>;

/// Every way for a sandbox to live, with the capability that it needs.
const CYCLES: [(Option<&str>, Cycle); 6] = [
    (None, |client, _| {
        let sandbox = create(client, &json!({}))?;
        delete(client, &sandbox)
    }),
    // A name, variables, a command that is still running.
    (None, |client, number| {
        let name = format!("cycle-{number}");
        let sandbox = create(client, &json!({ "name": name, "env": { "A": "b" } }))?;
        ended(client, &sandbox, &json!({ "command": ["/bin/true"] }))?;
        let lasting = json!({ "shell": "sleep 1000" });
        client.ask("POST", &path(&sandbox, "/execs"), Some(&lasting))?;
        delete(client, &sandbox)
    }),
    (None, |client, _| {
        let sandbox = create(client, &json!({}))?;
        for verb in ["/stop", "/resume", "/kill", "/resume"] {
            client.ask("POST", &path(&sandbox, verb), None)?;
        }
        ended(client, &sandbox, &json!({ "command": ["/bin/true"] }))?;
        delete(client, &sandbox)
    }),
    (None, |client, _| {
        let service = json!({ "name": "web", "shell": "sleep 1000" });
        let sandbox = create(client, &json!({ "services": [service] }))?;
        client.ask("POST", &path(&sandbox, "/ports/8000/expose"), Some(&json!({})))?;
        delete(client, &sandbox)
    }),
    (Some("pause"), |client, _| {
        let sandbox = create(client, &json!({}))?;
        for verb in ["/pause", "/resume", "/pause"] {
            client.ask("POST", &path(&sandbox, verb), None)?;
        }
        delete(client, &sandbox)
    }),
    (Some("limit_memory"), |client, _| {
        let limits = json!({ "memory_bytes": 256 << 20, "pids": 100 });
        let sandbox = create(client, &json!({ "limits": limits }))?;
        ended(client, &sandbox, &json!({ "command": ["/bin/true"] }))?;
        delete(client, &sandbox)
    }),
];

fn create(client: &mut Client, request: &Value) -> Result<Value> {
    client.ask("POST", "/v1/sandboxes", Some(request))
}
