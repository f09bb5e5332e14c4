//! Output arrives whole, exact and in order.

use super::each;
use atoll_testkit::run::Ran;
use std::io::{BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

#[test]
fn a_lot_of_output_arrives_whole_and_in_flat_memory() {
    const TOTAL: usize = 256 << 20;
    each(|project| {
        // No newline anywhere.
        let script = format!("head -c {TOTAL} /dev/zero; printf tail");
        let mut command = project.atoll(&["run", "--", "sh", "-c", &script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (mut total, mut last) = (0, Vec::new());
        let mut buffer = vec![0; 1 << 20];
        let mut peak = String::new();
        loop {
            match stdout.read(&mut buffer).unwrap() {
                0 => break,
                count => {
                    total += count;
                    last = buffer[count.saturating_sub(4)..count].to_vec();
                }
            }
            if total < TOTAL / 2 {
                let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
                peak = status.unwrap_or_default();
            }
        }
        assert!(child.wait().unwrap().success());
        assert_eq!(total, TOTAL + 4);
        assert_eq!(last, b"tail");
        let peak: usize = peak
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"))
            .and_then(|text| text.trim().trim_end_matches(" kB").parse().ok())
            .unwrap();
        assert!(peak < 64 << 10, "{peak} KiB");
    });
}

#[test]
fn a_reader_that_goes_away_ends_the_command_as_outside() {
    each(|project| {
        let end = |mut command: std::process::Command| {
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut first = [0; 2];
            child.stdout.take().unwrap().read_exact(&mut first).unwrap();
            assert_eq!(&first, b"y\n");
            let status = child.wait().unwrap();
            status.code().or(status.signal().map(|signal| 128 + signal))
        };
        let bare = end(project.bare("yes"));
        assert_eq!(bare, Some(141));
        assert_eq!(end(project.atoll(&["run", "--", "yes"])), bare);
    });
}

#[test]
fn a_slow_reader_loses_nothing_and_holds_the_command_up() {
    each(|project| {
        let script = "i=0; while [ $i -lt 20000 ]; do echo out $i; i=$((i+1)); done; echo end";
        let mut command = project.atoll(&["run", "--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::with_capacity(64, child.stdout.take().unwrap());
        let mut text = String::new();
        // Nothing is read until the pipe must be full.
        super::wait_until("a full pipe", || {
            rustix::io::ioctl_fionread(stdout.get_ref()).unwrap() >= 60_000
        });
        assert!(child.try_wait().unwrap().is_none());
        stdout.read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(text.lines().count(), 20_001);
        assert!(text.ends_with("out 19999\nend\n"));
    });
}

#[test]
fn both_outputs_into_one_pipe_keep_their_order() {
    let script =
        "(i=0; while [ $i -lt 500 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done) 2>&1";
    each(|project| {
        let (bare, run) = (project.bare_sh(script), project.run_sh(&[], script));
        assert_eq!(run.stdout(), bare.stdout());
        let around = format!(
            "{} run -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done' 2>&1",
            project.program().display()
        );
        let together = project.bare_sh(&around).stdout();
        let expected: String = (1..10).map(|i| format!("out {i}\nerr {i}\n")).collect();
        assert_eq!(together, expected);
    });
}

#[test]
fn bytes_of_every_kind_arrive_unchanged() {
    each(|project| {
        let all: Vec<u8> = (0..=255).cycle().take(70_000).collect();
        project.write("all", &all);
        project.write("split", "ä€😀".repeat(5_000));
        let script = "cat all split; printf '\\033]0;title\\007\\033[31mred'";
        let (bare, run) = (project.bare_sh(script), project.run_sh(&[], script));
        assert_eq!(run.0.stdout, bare.0.stdout);
        let script = "exec >&2; cat all split";
        let (bare, run) = (project.bare_sh(script), project.run_sh(&[], script));
        assert_eq!(run.0.stderr, bare.0.stderr);
    });
}

/// What the report says of names is text, not commands to a terminal.
#[test]
fn control_characters_of_names_are_escaped_in_the_report() {
    each(|project| {
        let script = "mkdir -p .git/hooks; : > \"$(printf '.git/hooks/a\\033[2Jb')\"; mkdir .vscode
            : > \"$(printf '.vscode/\\033]0;x\\007')\"; true";
        project.write(".git/HEAD", "ref: refs/heads/main\n");
        project.write(".git/config", "");
        project.write(".git/objects/x", "");
        project.write(".git/refs/x", "");
        let run = project.run_sh(&[], script);
        let report: String =
            run.stderr().lines().filter(|line| line.starts_with("atoll:")).collect();
        assert!(report.contains("refused"), "{}", run.text());
        assert!(!report.chars().any(char::is_control), "{report:?}");
        let json = project.run_sh(&["--json"], script);
        assert!(json.json()["denials"].as_array().is_some_and(|list| !list.is_empty()));
        let line = json.stderr().lines().last().unwrap().to_owned();
        assert!(!line.chars().any(char::is_control), "{line:?}");
    });
}

#[test]
fn instructions_that_a_run_changed_are_listed_at_its_end() {
    let script =
        "echo obey >> AGENTS.md; mkdir -p .github/workflows; echo x > .github/workflows/ci.yml;
        echo x > README.md; mkdir -p sub; echo x > sub/CLAUDE.md";
    each(|project| {
        project.write("AGENTS.md", "be kind\n");
        let run = project.run_sh(&[], script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let path = |name: &str| project.root().join(name).display().to_string();
        let changed = [path(".github/workflows/ci.yml"), path("AGENTS.md")];
        let line = format!(
            "atoll: changed in this run: {}; agents, git or a server will obey it",
            changed.join(", ")
        );
        assert!(run.stderr().lines().any(|said| said == line), "{}", run.text());
        let json = project.run_sh(&["--json"], script).json();
        assert_eq!(json["noticed"]["reported_files"], serde_json::json!(changed), "{json}");
        // A run that only reads them changes nothing, and who allows one knows.
        let run = project.run_sh(&["--json"], "cat AGENTS.md .github/workflows/ci.yml");
        assert_eq!(run.json()["noticed"]["reported_files"], serde_json::json!([]));
        let run = project.run_sh(&["--json", "--allow-write", "/AGENTS.md"], script);
        assert_eq!(run.json()["noticed"]["reported_files"], serde_json::json!(changed[..1]));
    });
}

#[test]
fn the_result_object_says_how_it_went() {
    let last = |run: &Ran| -> serde_json::Value {
        serde_json::from_str(run.stderr().lines().last().unwrap()).unwrap()
    };
    each(|project| {
        let burn = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; kill -TERM $$";
        let run = project.run_sh(&["--json"], burn);
        let told = last(&run);
        assert_eq!((told["signal"].as_i64(), told["exit"].as_i64()), (Some(15), None), "{told}");
        assert_eq!(told["status"], 143, "{told}");
        assert!(told["usage"]["cpu_us"].as_u64().is_some_and(|used| used > 1_000), "{told}");
        assert!(told["usage"]["max_rss_kib"].as_u64().is_some_and(|most| most > 100), "{told}");
        let order = ["planned", "cloned", "view_ready", "confined", "running", "ended", "done"];
        let moments = order.map(|name| told["timeline"][name].as_u64().unwrap());
        assert!(moments.is_sorted() && moments[0] > 0, "{told}");
        assert_eq!(told["changed_files"], serde_json::Value::Null, "{told}");

        let run = project.run_sh(&["--json", "--workspace", "review"], "echo a > made; exit 3");
        let told = last(&run);
        assert_eq!((told["exit"].as_i64(), told["signal"].as_i64()), (Some(3), None), "{told}");
        assert!(told["changed_files"].to_string().contains("made"), "{told}");
        assert_eq!(project.atoll(&["discard", "--yes"]).status().unwrap().code(), Some(0));
    });
}
