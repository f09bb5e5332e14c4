//! The pages in `docs/` that are written by hand say what the program does. Those
//! that are made from code are checked in the library.

use atoll_testkit::run::{Project, Ran};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Runs `test` with a project that has a file, for each user there can be.
fn each(test: impl Fn(&Project)) {
    super::each(|project| {
        project.write("notes.txt", "a note\n");
        test(project);
    });
}

fn atoll(project: &Project, arguments: &[&str]) -> Ran {
    let mut command = project.atoll(arguments);
    // Something that stays outside, and an entry that nobody inside could use.
    command.env("A_SECRET", "1").env("PATH", "/usr/bin:/bin:/no/such/directory");
    Ran(command.output().unwrap())
}

#[test]
fn exit_codes_are_as_the_table_says() {
    each(|project| {
        let mut checked = 0;
        for line in page("exit-codes.md").lines() {
            let Some((command, rest)) = line.split_once("| `atoll ").and_then(|(_, example)| {
                let (command, rest) = example.split_once("` gives ")?;
                Some((command, rest))
            }) else {
                continue;
            };
            let code: i32 = rest.trim_end_matches(" |").parse().unwrap();
            let program = project.atoll(&[]).get_program().to_owned();
            let mut shell = project.bare("sh");
            shell.args(["-c", &format!("\"$0\" {command}")]).arg(program);
            let ran = Ran(shell.output().unwrap());
            assert_eq!(ran.code(), Some(code), "{command}: {}", ran.text());
            checked += 1;
        }
        assert_eq!(checked, 7, "examples were not found");
    });
}

/// The fields of the section with this title.
fn documented(title: &str) -> BTreeSet<String> {
    let page = page("json.md");
    let section = page.split("\n## ").find(|part| part.starts_with(title)).unwrap();
    let fields = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    fields.map(str::to_owned).collect()
}

/// The path of every value that holds no others, and of empty ones nothing.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let dot = if path.is_empty() { "" } else { "." };
                fields(value, &format!("{path}{dot}{name}"), found);
            }
        }
        Value::Array(items) => {
            for item in items {
                fields(item, &format!("{path}[]"), found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

/// All that is printed is documented, and each name that is documented is printed
/// somewhere, but for `elsewhere`: what this machine cannot be made to print.
#[track_caller]
fn compare(title: &str, printed: &[Value], elsewhere: &[&str]) {
    let documented = documented(title);
    let mut found = BTreeSet::new();
    for value in printed {
        fields(value, "", &mut found);
    }
    // A list of objects that is null is named without its brackets.
    let missing: Vec<&String> = found.difference(&documented).collect();
    assert!(missing.is_empty(), "docs/json.md, {title}, lacks {missing:?}");
    let parents: BTreeSet<&str> = found
        .iter()
        .flat_map(|path| path.match_indices('.').map(|(at, _)| path[..at].trim_end_matches("[]")))
        .collect();
    let last = |path: &str| path.rsplit('.').next().unwrap().to_owned();
    let names: BTreeSet<String> = found.iter().map(|path| last(path)).collect();
    for field in documented {
        let is_printed = names.contains(&last(&field)) || parents.contains(field.as_str());
        assert!(
            is_printed || elsewhere.contains(&field.as_str()),
            "docs/json.md, {title}: {field} is never printed"
        );
    }
}

fn object(ran: &Ran) -> Value {
    let text = ran.stdout();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {}", ran.text()))
}

#[test]
fn json_of_run_is_documented() {
    each(|project| {
        assert_eq!(project.bare_sh("git init --quiet").code(), Some(0));
        project.write(".env", "");
        project.write(".aiignore", ".env\n");
        assert_eq!(project.bare_sh("ln .env twin").code(), Some(0));
        let script =
            "echo x > .git/hooks/pre-commit; mkdir -p a/.vscode; echo x > a/.vscode/tasks.json
                      git init --quiet born; echo x > AGENTS.md; exit 3";
        let printed = [
            &["run", "--json", "--", "sh", "-c", script][..],
            &["run", "--json", "--", "no-such-command"],
            &["run", "--json", "--timeout", "100ms", "--", "sleep", "60"],
            &["run", "--json", "--workspace", "review", "--", "touch", "new"],
            &[
                "run",
                "--json",
                "--deny-host",
                "a.test",
                "--",
                "curl",
                "-m",
                "20",
                "http://a.test/x",
            ],
        ]
        .map(|arguments| atoll(project, arguments).json());
        compare("`atoll run --json`", &printed, &["unenforced[]", "network.ended"]);
    });
}

#[test]
fn json_of_reviews_is_documented() {
    each(|project| {
        project.write("other.txt", "1\n");
        let script = "echo 'all:' > Makefile; echo 2 > notes.txt; rm other.txt; mkfifo pipe";
        let run = project.run_sh(&["--workspace", "review"], script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let diff = object(&atoll(project, &["diff", "--json"]));
        // Neither is what the session saw any more.
        project.write("notes.txt", "3\n");
        project.write("other.txt", "3\n");
        let sessions = project.home().join(".local/state/atoll/sessions");
        let broken = sessions.join("ses_0123456789abcdef");
        std::fs::create_dir(&broken).unwrap();
        std::fs::write(broken.join("record.json"), "{").unwrap();
        project.user.give(&broken);
        let list = object(&atoll(project, &["diff", "--list", "--json"]));
        compare("`atoll diff --json`", &[diff, list], &[]);

        let apply = ["apply", "--json", "--yes", "--force", "notes.txt", "notes.txt", "other.txt"];
        let apply = object(&atoll(project, &apply));
        compare("`atoll apply --json`", &[apply], &[]);
        let discard = object(&atoll(project, &["discard", "--yes", "--json"]));
        compare("`atoll discard --json`", &[discard], &[]);
    });
}

#[test]
fn json_of_policy_is_documented() {
    each(|project| {
        project.write(".env", "A=1\n");
        project.write(".atollignore", ".env\n");
        project.write("atoll.toml", "[protect]\ndeny = [\"x\"]\n");
        let show =
            ["policy", "show", "--json", "--hide", "notes.txt", "--allow-write", "nothing.txt"];
        let show = object(&atoll(project, &show));
        compare("`atoll policy show --json`", &[show], &[]);

        // A toolchain that is a link has another place inside.
        std::fs::create_dir_all(project.outside().join("tools/bin")).unwrap();
        std::os::unix::fs::symlink(project.outside().join("tools"), project.home().join(".pyenv"))
            .unwrap();
        let explain = |arguments: &[&str]| object(&atoll(project, arguments));
        let printed = [
            explain(&["policy", "explain", "--json", ".env"]),
            explain(&["policy", "explain", "--json", "../home/.pyenv/bin"]),
            explain(&["policy", "explain", "--json", "--hide", "notes.txt", "notes.txt"]),
        ];
        compare("`atoll policy explain --json`", &printed, &[]);
    });
}

#[test]
fn json_of_the_network_is_documented() {
    each(|project| {
        let policy = "[network]\nmode = 'rules'\nallow = ['a.example']\n\
                      [network.secret.A]\nat = ['https://a.example']\nas = 'bearer'\n";
        let file = project.home().join(".config/atoll/config.toml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, policy).unwrap();
        project.user.give(&project.home().join(".config"));
        let explain = |what: &str, flags: &[&str]| {
            let explain = ["policy", "explain", "--json", what];
            object(&atoll(project, &[&explain[..], flags].concat()))
        };
        let printed = [
            explain("https://a.example/", &[]),
            explain("https://b.example/", &[]),
            explain("https://pypi.org/", &["--preset", "python"]),
        ];
        assert_eq!(printed[0]["secrets"], serde_json::json!(["A"]));
        compare("`atoll policy explain URL --json`", &printed, &[]);
        let presets = object(&atoll(project, &["policy", "presets", "--json"]));
        compare("`atoll policy presets --json`", &[presets], &[]);
    });
}

#[test]
fn json_of_doctor_is_documented() {
    each(|project| {
        let doctor = object(&atoll(project, &["doctor", "--json"]));
        compare("`atoll doctor --json`", &[doctor], &["notes[]"]);
    });
}
