//! The reference pages in `docs/` are made from the code that they are about.
//!
//! A page has parts between `<!-- made: NAME -->` and `<!-- end -->`. A test fails
//! when one is stale; `ATOLL_UPDATE_DOCS=1 cargo nextest run -p atoll reference`
//! writes them anew.

use crate::{Cli, env};
use atoll_api::policy::{self, EffectivePolicy, KEYS};
use atoll_api::protect::{self, Handling, NAMES, Scope};
use atoll_jail::seccomp;
use clap::CommandFactory as _;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An example of each key, and the flag that says the same.
const EXAMPLES: &[(&str, &str, Option<&str>)] = &[
    ("workspace.mode", "\"review\"", Some("workspace")),
    ("workspace.strict_ignore", "true", Some("strict-ignore")),
    ("workspace.apply", "\"ask\"", None),
    ("files.read", "[\"~/.config/pip\", \"/srv/data\"]", Some("read")),
    ("files.write", "[\"~/scratch\"]", Some("write")),
    ("files.hide", "[\"*.pem\", \"/secrets/\"]", Some("hide")),
    ("files.ignore_files", "[\".mytoolignore\"]", None),
    ("protect.allow", "[\".vscode/\", \"/.git/hooks/\"]", Some("allow-write")),
    ("protect.deny", "[\"deploy/\", \"*.lock\"]", None),
    ("exec.ask", "[\"git push *\"]", None),
    ("env.pass", "[\"GOPRIVATE\", \"MY_APP_*\"]", Some("env")),
    ("env.set", "{ NODE_ENV = \"test\" }", Some("env")),
    ("limits.memory", "\"2GiB\"", Some("memory")),
    ("limits.disk", "\"8GiB\"", Some("disk")),
    ("limits.pids", "512", Some("pids")),
    ("limits.cpus", "1.5", Some("cpus")),
    ("limits.open_files", "4096", Some("open-files")),
    ("limits.time", "\"10m\"", Some("timeout")),
    ("network.mode", "\"rules\"", Some("net")),
    ("network.presets", "[\"python\"]", Some("preset")),
    (
        "network.allow",
        "[\"https://GET,HEAD@api.github.com/repos/**\", \"tcp://db.example.org:5432\"]",
        Some("allow-host"),
    ),
    ("network.ask", "[\"*\"]", Some("ask-host")),
    ("network.deny", "[\"gist.github.com\"]", Some("deny-host")),
    ("network.explain", "false", None),
    ("network.proxy_variables", "true", None),
    ("network.stand_in", "\"9.0.0.0/16\"", None),
    ("network.ipv6", "false", None),
    ("network.upstream_proxy", "\"http://proxy.corp:3128\"", None),
    ("network.requests_max", "10000", None),
    ("network.bytes_max", "\"2GiB\"", None),
    ("network.requests_per_host_max", "1000", None),
    ("network.bytes_per_host_max", "\"500MiB\"", None),
    (
        "network.secret",
        "{ GITHUB = { at = [\"https://api.github.com\"], as = \"bearer\", env = \"GITHUB_TOKEN\" } }",
        None,
    ),
    ("tier.isolation", "\"container\"", Some("tier")),
    ("kernel.ptrace", "true", Some("allow ptrace")),
    ("kernel.nested_userns", "true", Some("allow nested-userns")),
    ("root.image", "\"/srv/images/debian\"", Some("image")),
];

/// What decides where a call is refused by its arguments, by the call's name or
/// its rule.
const BY_ARGUMENTS: &[(&str, &str)] = &[
    (
        "kernel.set-id",
        "`EPERM` with the set-user-ID bit; for a new file, with the set-group-ID bit too",
    ),
    ("clone", "`EPERM` with a flag for a new namespace"),
    (
        "ioctl",
        "`EPERM` for `TIOCSTI`, `TIOCLINUX`, and what is btrfs' own but for cloning and deduplicating",
    ),
    ("prlimit64", "`EPERM` for PID 1 and the helper beside it"),
    ("personality", "`EPERM` but for the default, asking, and what debuggers set"),
    ("socket", "`EAFNOSUPPORT` but for unix, TCP and UDP over IPv4 and IPv6, and route netlink"),
    ("socketpair", "`EAFNOSUPPORT` but for unix"),
];

fn page(name: &str) -> PathBuf {
    PathBuf::from(std::env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

/// Compares the made parts of a page with what is committed, or writes them.
#[track_caller]
fn check(name: &str, parts: &[(&str, String)]) {
    let path = page(name);
    let committed = std::fs::read_to_string(&path).unwrap();
    let mut text = committed.clone();
    for (part, made) in parts {
        let opening = format!("<!-- made: {part} -->\n");
        let start = text.find(&opening).expect("the part's opening mark") + opening.len();
        let length = text[start..].find("<!-- end -->").expect("the part's closing mark");
        text.replace_range(start..start + length, &format!("\n{}\n\n", made.trim_end()));
    }
    assert_eq!(text.matches("<!-- made: ").count(), parts.len(), "{name} has other parts");
    if std::env::var_os("ATOLL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, text).unwrap();
        return;
    }
    let difference = committed.lines().zip(text.lines()).find(|(old, new)| old != new);
    assert!(
        committed == text,
        "docs/{name} is stale; ATOLL_UPDATE_DOCS=1 writes it anew. First difference: {difference:?}"
    );
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

fn example(key: &str) -> (&'static str, Option<&'static str>) {
    let found = EXAMPLES.iter().find(|(name, ..)| *name == key);
    let (_, value, flag) = found.unwrap_or_else(|| panic!("{key} has no example"));
    (value, *flag)
}

/// The values of a key when nobody says anything.
fn built_in(policy: &EffectivePolicy, key: &str) -> String {
    let entries = policy.entries();
    let values: Vec<String> = entries
        .iter()
        .filter(|entry| entry.key == key)
        .map(|entry| code(&entry.value.to_string()))
        .collect();
    if values.is_empty() { "nothing".to_owned() } else { values.join(", ") }
}

#[test]
fn policy_page_lists_every_key() {
    let policy = EffectivePolicy::built_in();
    let mut made = String::new();
    let mut document = String::new();
    let sections = KEYS.iter().map(|key| key.section).fold(Vec::new(), |mut sections, section| {
        if sections.last() != Some(&section) {
            sections.push(section);
        }
        sections
    });
    for section in sections {
        let mut lines = format!("[{section}]\n");
        made += &format!(
            "### `[{section}]`\n\n| key | takes | what it says | flag |\n|---|---|---|---|\n"
        );
        for key in KEYS.iter().filter(|key| key.section == section) {
            let (value, flag) = example(&format!("{section}.{}", key.name));
            let flag = flag.map_or_else(String::new, |flag| code(&format!("--{flag}")));
            made += &format!("| `{}` | {} | {} | {flag} |\n", key.name, key.takes, key.about);
            lines += &format!("{} = {value}\n", key.name);
        }
        made += "\nBuilt in:\n\n";
        for key in KEYS.iter().filter(|key| key.section == section) {
            let values = built_in(&policy, &format!("{section}.{}", key.name));
            made += &format!("- `{}`: {values}\n", key.name);
        }
        made += &format!("\n```toml\n{lines}```\n\n");
        document += &lines;
    }
    let parsed = policy::parse(document.as_bytes()).expect("the examples are a policy");
    assert_eq!(parsed.limits.cpus.map(|cpus| cpus.value.most().unwrap().milli), Some(1500));
    assert_eq!(EXAMPLES.len(), KEYS.len(), "an example is for no key");
    check("policy.md", &[("keys", made)]);
}

#[test]
fn flags_beside_keys_exist() {
    let cli = Cli::command();
    let run = cli.find_subcommand("run").unwrap();
    for flag in EXAMPLES.iter().filter_map(|(.., flag)| *flag) {
        let long = flag.split(' ').next();
        assert!(run.get_arguments().any(|arg| arg.get_long() == long), "--{flag}");
    }
}

#[test]
fn command_line_page_is_the_help() {
    let mut cli = Cli::command();
    cli.build();
    let mut made = String::new();
    help(&mut cli, &mut made);
    check("cli.md", &[("help", made)]);
}

/// A command and those below it; the one that only prints help says nothing new.
fn help(command: &mut clap::Command, made: &mut String) {
    let name = command.get_bin_name().unwrap_or("atoll").to_owned();
    let text = command.render_long_help().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    *made += &format!("## `{name}`\n\n```text\n{}\n```\n\n", lines.join("\n"));
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
        help(below, made);
    }
}

#[test]
fn environment_page_lists_what_atoll_reads() {
    let mut made = String::from("| variable | what it does |\n|---|---|\n");
    for variable in env::ALL {
        made += &format!("| `{}` | {} |\n", variable.name, variable.about);
    }
    check("env.md", &[("variables", made)]);
}

#[test]
fn protected_page_lists_every_name() {
    let table = |handling: Handling| {
        let mut made = String::from("| name | read by | where | why |\n|---|---|---|---|\n");
        for name in NAMES.iter().filter(|name| name.handling == handling) {
            let place = match name.scope {
                Scope::Roots => "at roots",
                Scope::AnyDepth => "anywhere",
            };
            let (name, kind, why) = (code(name.name), name.kind.as_str(), name.why);
            made += &format!("| {name} | {kind} | {place} | {why} |\n");
        }
        made
    };
    let mut internals = String::from("| in a git directory | why |\n|---|---|\n");
    for internal in protect::GIT_INTERNALS {
        internals += &format!("| {} | {} |\n", code(internal.name), internal.why);
    }
    let parts = [
        ("refused", table(Handling::Refuse)),
        ("reported", table(Handling::Report)),
        ("git", internals),
    ];
    check("protected.md", &parts);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn seccomp_page_lists_every_refused_call() {
    let mut rules: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for refused in seccomp::refused() {
        let answer = match refused.errno() {
            Some(errno) => code(errno_name(errno)),
            None => {
                let own = [refused.name, refused.why.code()];
                let words = BY_ARGUMENTS.iter().find(|(name, _)| own.contains(name));
                words.unwrap_or_else(|| panic!("{} has no words", refused.name)).1.to_owned()
            }
        };
        let answers = rules.entry(refused.why.code()).or_default();
        answers.entry(answer).or_default().push(refused.name);
    }
    let mut made = String::from("| rule | calls | answer |\n|---|---|---|\n");
    for (rule, answers) in &rules {
        for (answer, names) in answers {
            let mut names: Vec<String> = names.iter().map(|name| code(name)).collect();
            names.sort();
            made += &format!("| `{rule}` | {} | {answer} |\n", names.join(", "));
        }
    }
    check("seccomp.md", &[("calls", made)]);
    let text = std::fs::read_to_string(page("seccomp.md")).unwrap();
    for rule in rules.keys() {
        assert!(text.contains(&format!("- `{rule}`: ")), "{rule} is not explained");
    }
}

#[cfg(target_arch = "x86_64")]
fn errno_name(errno: i32) -> &'static str {
    match errno {
        1 => "EPERM",
        38 => "ENOSYS",
        97 => "EAFNOSUPPORT",
        _ => panic!("errno {errno} has no name here"),
    }
}

/// The judge's codes stand in one `match`, the guesses' in one table.
#[test]
fn every_rule_of_the_judge_is_explained() {
    let source = include_str!("../../jail/src/judge/denial.rs");
    let codes: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Self::")?.split_once(" => \""))
        .map(|(_, code)| code.trim_end_matches("\","))
        .collect();
    assert!(codes.len() >= 15 && codes.contains(&"git-hooks"), "{codes:?}");
    let guesses = include_str!("run/hints.rs").lines();
    let guesses = guesses.filter_map(|line| line.trim().strip_prefix("rule: \"system."));
    let guesses: Vec<String> =
        guesses.map(|rest| format!("system.{}", rest.trim_end_matches("\","))).collect();
    assert!(guesses.len() >= 6, "{guesses:?}");
    let text = std::fs::read_to_string(page("denials.md")).unwrap();
    for code in codes.into_iter().chain(guesses.iter().map(String::as_str)) {
        assert!(text.contains(&format!("| `{code}` | ")), "{code} is not explained");
    }
}
