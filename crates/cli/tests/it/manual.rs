//! What shells and man(1) know of the program is made from its own definitions.

use super::each;
use atoll_testkit::run::{Project, Ran};

fn atoll(project: &Project, arguments: &[&str]) -> Ran {
    Ran(project.atoll(arguments).output().unwrap())
}

#[test]
fn shells_complete_commands_and_flags() {
    each(|project| {
        let script = "source <(\"$0\" completions bash) && COMP_WORDS=(atoll ex) COMP_CWORD=1 &&
            _atoll atoll ex atoll && echo ${COMPREPLY[*]} &&
            COMP_WORDS=(atoll exec --time) COMP_CWORD=2 && _atoll atoll --time exec &&
            echo ${COMPREPLY[*]}";
        let mut bash = project.bare("bash");
        let ran = Ran(bash.args(["-c", script]).arg(project.program()).output().unwrap());
        assert_eq!(ran.stdout(), "exec expose\n--timeout\n", "{}", ran.text());
        let zsh = atoll(project, &["completions", "zsh"]);
        assert!(zsh.stdout().starts_with("#compdef atoll"), "{}", zsh.text());
        let fish = atoll(project, &["completions", "fish"]);
        assert!(fish.stdout().contains("complete -c atoll "), "{}", fish.text());
        let json = atoll(project, &["completions", "fish", "--json"]).stdout();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["shell"], &json["script"]), (&"fish".into(), &fish.stdout().into()));
        assert_eq!(atoll(project, &["completions", "csh"]).code(), Some(2));
    });
}

#[test]
fn every_command_has_a_manual_page() {
    each(|project| {
        let ran = atoll(project, &["man", "man/man1", "--json"]);
        assert_eq!(ran.code(), Some(0), "{}", ran.text());
        let json: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
        let pages = json["pages"].as_array().unwrap();
        let help = atoll(project, &["--help"]).stdout();
        let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let commands = commands.take_while(|line| !line.is_empty());
        let names: Vec<&str> = commands
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .collect();
        assert!(names.len() > 25, "{help}");
        for name in names {
            let page = format!("atoll-{name}.1");
            assert!(pages.contains(&page.as_str().into()), "{page} is not in {pages:?}");
            let text = project.read(&format!("man/man1/{page}"));
            assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
        }
        assert!(project.read("man/man1/atoll-keys-create.1").contains("scope"));
        assert!(project.read("man/man1/atoll.1").contains(".TH atoll 1"));
        let refused = atoll(project, &["man", "/proc/none"]);
        assert_eq!(refused.code(), Some(125), "{}", refused.text());
    });
}
