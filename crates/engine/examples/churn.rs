//! A server without an interface: makes, uses, stops and deletes sandboxes until it is
//! killed. For tests.
//!
//! `churn STATE RECORDS SPAWNER MARK`; it prints a line for each thing that it has done.

use anyhow::Context as _;
use atoll_api::sandbox::{CreateSandbox, State};
use atoll_engine::backend::Container;
use atoll_engine::clock::SystemClock;
use atoll_engine::{Config, Engine};
use atoll_protocol::exec;
use atoll_protocol::octets::Octets;
use atoll_protocol::request::Request;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Names that are used again and again.
const NAMES: u64 = 50;

/// Callers at once.
const CALLERS: u64 = 10;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let mut next = |what: &str| arguments.next().with_context(|| format!("{what} is missing"));
    let (state, records) = (PathBuf::from(next("STATE")?), PathBuf::from(next("RECORDS")?));
    let spawner = Command::new(next("SPAWNER")?);
    let mark = next("MARK")?.into_string().ok().context("MARK is no text")?;
    let backend = Arc::new(Container::open(&state, spawner, Duration::from_secs(20))?);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock = Arc::new(SystemClock);
        let engine = Arc::new(Engine::start(Config::default(), backend, clock, records).await?);
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                tokio::spawn(call(Arc::clone(&engine), state.clone(), mark.clone(), caller))
            })
            .collect();
        for caller in callers {
            caller.await?;
        }
        Ok(())
    })
}

/// Does one thing after the other, each with a name that others use too.
async fn call(engine: Arc<Engine>, state: PathBuf, mark: String, caller: u64) {
    for step in 0.. {
        // Any order will do that differs between callers and runs.
        let number = (step * 31 + caller * 7 + u64::from(std::process::id())) % NAMES;
        let name = format!("n{number}");
        let request = CreateSandbox {
            name: Some(name.parse().expect("it is a name")),
            ..CreateSandbox::default()
        };
        let Ok(got) = engine.get_or_create(request).await else { continue };
        let sandbox = got.sandbox;
        if sandbox.state == State::Running {
            let socket = state.join(sandbox.id.to_string()).join("guest");
            let start = Request::Start(sleep(&mark, caller, step));
            tokio::task::spawn_blocking(move || atoll_spawner::client::tell(&socket, &start).ok())
                .await
                .ok();
        }
        // Others may have been faster, so any answer will do.
        let done = match step % 4 {
            0 => engine.stop(sandbox.id).await.is_ok(),
            1 => engine.resume(sandbox.id).await.is_ok(),
            2 => engine.delete(sandbox.id).await.is_ok(),
            _ => true,
        };
        writeln!(std::io::stdout(), "{name} {step} {done}").ok();
    }
}

fn sleep(mark: &str, caller: u64, step: u64) -> exec::Start {
    let words = ["sh", "-c", &format!("sleep 600; : {mark}")];
    exec::Start {
        id: format!("{caller}-{step}-{}", std::process::id()),
        command: exec::Command {
            arguments: words.iter().map(|word| Octets::try_from(*word).expect("no NUL")).collect(),
            environment: Vec::new(),
            directory: None,
            user: exec::User::Workload,
        },
        session: None,
        input: exec::Input::Closed,
        timeout_ms: None,
        keep_bytes: exec::KEEP_BYTES_MIN,
        on_disconnect: exec::OnDisconnect::GoOn,
        name: None,
    }
}
