//! `atoll policy`, and where policy comes from.

use atoll_testkit::run::Project;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

/// A home with a project in it.
struct Place<'a> {
    around: &'a Project,
}

/// Runs `test` in a place of its own for each user there can be.
fn each(test: impl Fn(&Place<'_>)) {
    // All users are told the same.
    insta::allow_duplicates!(super::each(|around| {
        let place = Place { around };
        place.write("home/p/.git/HEAD", "ref: refs/heads/main\n");
        test(&place);
    }));
}

impl Place<'_> {
    /// The real path: the folder for temporary files may be a link.
    fn root(&self) -> PathBuf {
        fs::canonicalize(self.around.home()).unwrap().parent().unwrap().to_owned()
    }

    fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    fn project(&self) -> PathBuf {
        self.around.home().join("p")
    }

    /// Makes all that is in the home the user's own.
    fn give(&self) {
        self.around.user.give(&self.home());
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        self.make_dir(path.parent().unwrap());
        fs::write(&path, content).unwrap();
        self.around.user.give(&path);
    }

    /// Makes a directory in the home, with its parents.
    fn make_dir(&self, path: &Path) {
        fs::create_dir_all(path).unwrap();
        self.give();
    }

    fn user_policy(&self, content: &str) {
        self.write("home/.config/atoll/config.toml", content);
    }

    fn atoll_in(&self, dir: &Path, args: &[&str]) -> Output {
        self.around.atoll(args).current_dir(dir).output().unwrap()
    }

    fn atoll(&self, args: &[&str]) -> Output {
        self.atoll_in(&self.project(), args)
    }

    /// Standard output of a command that must succeed, with this place's path replaced.
    #[track_caller]
    fn succeeds(&self, args: &[&str]) -> String {
        let output = self.atoll(args);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.shorten(&output.stdout)
    }

    /// Standard error of a command that must fail as ours.
    #[track_caller]
    fn fails(&self, args: &[&str]) -> String {
        self.fails_in(&self.project(), args)
    }

    #[track_caller]
    fn fails_in(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.atoll_in(dir, args);
        assert_eq!(output.status.code(), Some(125), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.stdout.is_empty());
        self.shorten(&output.stderr)
    }

    fn shorten(&self, text: &[u8]) -> String {
        String::from_utf8_lossy(text).replace(self.root().to_str().unwrap(), "ROOT")
    }

    /// The lines of `policy show` that somebody had to ask for.
    #[track_caller]
    fn asked_for(&self, args: &[&str]) -> String {
        let shown = self.succeeds(&[&["policy", "show"], args].concat());
        let lines = shown.lines().filter(|line| !line.ends_with("# built in"));
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
    }
}

#[test]
fn every_level_is_read_and_named() {
    each(|place| {
        place.user_policy("[limits]\nmemory = '4GiB'\npids = 100\n[files]\nread = ['~/data']\n");
        place.write("home/data/x", "");
        place.write("other.toml", "[limits]\nmemory = '2GiB'\n");
        place.write("home/p/atoll.toml", "[limits]\nmemory = '1GiB'\n[files]\nhide = ['.env']\n");
        place.write("home/p/.env", "");
        let args = ["--policy", "../../other.toml", "--pids", "200", "--env", "A=b"];
        insta::assert_snapshot!(place.asked_for(&args), @r##"
        # project ROOT/home/p
        files.read = "ROOT/home/data" # ROOT/home/.config/atoll/config.toml:5
        files.hide = ".env" # ROOT/home/p/atoll.toml:4
        env.set.A = "b" # --env
        limits.memory = "1GiB" # ROOT/home/p/atoll.toml:2
        limits.pids = 200 # --pids
        # hides .env by ".env" (ROOT/home/p/atoll.toml:4)
        "##);
        assert!(!place.asked_for(&["--no-user-policy"]).contains("data"));
    });
}

#[test]
fn a_project_that_widens_is_refused_with_the_line_to_write() {
    each(|place| {
        place.write("home/p/atoll.toml", "\n[kernel]\nptrace = true\n");
        insta::assert_snapshot!(place.fails(&["policy", "show"]), @r##"
        error: ROOT/home/p/atoll.toml:3: kernel.ptrace: a project's policy may only narrow; ptrace is off
        hint: if you want it, write under [kernel] in ROOT/home/.config/atoll/config.toml: ptrace = true
        "##);
        place.user_policy("[kernel]\nptrace = true\n");
        place.succeeds(&["policy", "show"]);
    });
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    each(|place| {
        place.user_policy("[limits]\nmemroy = 1\ntime = 5\n");
        insta::assert_snapshot!(place.fails(&["policy", "show"]), @r##"
        error: ROOT/home/.config/atoll/config.toml:2: unknown key "memroy" in [limits]; did you mean "memory"?
        error: ROOT/home/.config/atoll/config.toml:3: limits.time must be a time with its unit, as in "90s", or "none", not a whole number
        "##);
    });
}

#[test]
fn what_is_not_available_is_said() {
    each(|place| {
        insta::assert_snapshot!(place.fails(&["policy", "show", "--tier", "microvm"]), @r##"
        error: --tier: the tier "microvm" is not available yet; write "container"
        "##);
        place.succeeds(&["policy", "show", "--net", "none", "--tier", "container"]);
    });
}

#[test]
fn what_is_said_of_the_network_is_shown_with_its_place() {
    each(|place| {
        place.user_policy(
            "[network]\nmode = 'rules'\nallow = [\n'pypi.org',\n'*.example.org',\n]\n\
             upstream_proxy = 'http://ada:secret@proxy.corp:3128'\n\
             [network.secret.GITHUB]\nat = ['https://api.github.com']\nas = 'bearer'\n",
        );
        place.write("home/p/atoll.toml", "[network]\nallow = []\nbytes_max = '1GiB'\n");
        let args = ["--preset", "python", "--deny-host", "evil.example.org"];
        insta::assert_snapshot!(place.asked_for(&args), @r#"
        # project ROOT/home/p
        network.mode = "rules" # --preset
        network.presets = "python" # --preset
        network.allow = "pypi.org" # ROOT/home/.config/atoll/config.toml:4
        network.allow = "*.example.org" # ROOT/home/.config/atoll/config.toml:5
        network.allow = [] # ROOT/home/p/atoll.toml:2
        network.deny = "evil.example.org" # --deny-host
        network.upstream_proxy = "http://***@proxy.corp:3128" # ROOT/home/.config/atoll/config.toml:7
        network.bytes_max = "1GiB" # ROOT/home/p/atoll.toml:3
        network.secret.GITHUB.at = "https://api.github.com" # ROOT/home/.config/atoll/config.toml:9
        network.secret.GITHUB.as = "bearer" # ROOT/home/.config/atoll/config.toml:8
        "#);
        // Flags about hosts say that hosts are to be reached, unless the mode is said.
        place.user_policy("");
        place.write("home/p/atoll.toml", "");
        for (args, mode) in [
            (&["--allow-host", "a.example"][..], "rules"),
            (&["--allow-host", "a.example", "--net", "none"], "none"),
        ] {
            let shown = place.asked_for(args);
            assert!(shown.contains(&format!("network.mode = \"{mode}\"")), "{shown}");
        }
    });
}

#[test]
fn mistakes_about_the_network_are_told_with_file_and_line() {
    each(|place| {
        place.user_policy("[network]\npresets = ['pyhton']\nallow = [\n'htps://a.example',\n]\n");
        let args = ["policy", "show", "--deny-host", "a..b"];
        insta::assert_snapshot!(place.fails(&args), @r#"
        error: ROOT/home/.config/atoll/config.toml:2: network.presets: "pyhton": there is no such preset; `atoll policy presets` lists them; did you mean "python"?
        error: ROOT/home/.config/atoll/config.toml:4: network.allow: "htps://a.example": "htps" is no protocol; there are https, http and tcp; did you mean "https://a.example"?
        error: --deny-host: "a..b" is no host: a host name has an empty part between two dots
        "#);
        let wrong = place.atoll(&["policy", "show", "--net", "rule"]);
        assert_eq!(wrong.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&wrong.stderr).contains("did you mean \"rules\"?"));
        place.user_policy("network.mode = 'rules'");
        place.succeeds(&["run", "--", "true"]);
        place.succeeds(&["run", "--net", "none", "--", "true"]);
    });
}

#[test]
fn a_destination_is_explained_with_the_line_that_decides() {
    each(|place| {
        place.user_policy(
            "[network]\nmode = 'rules'\nallow = [\n'https://GET@api.example/v1/**',\n]\n",
        );
        let explain = |args: &[&str]| place.succeeds(&[&["policy", "explain"], args].concat());
        let url = "https://api.example/v1/x";
        insta::assert_snapshot!(explain(&[url]), @r#"
        GET https://api.example/v1/x
        reach allow by "https://GET@api.example/v1/**" in network.allow (ROOT/home/.config/atoll/config.toml:4)
        tls   opened, so that requests are seen
        "#);
        insta::assert_snapshot!(explain(&["--method", "PUT", url]), @r#"
        PUT https://api.example/v1/x
        reach deny  rules allow other requests to this host, but not this one [request-not-allowed]
        next  --allow-host "https://PUT@api.example/v1/x", or under [network]: allow = ["https://PUT@api.example/v1/x"]
        "#);
        assert!(explain(&["--allow-host", "*", "other.example:443"]).contains("reach allow"));
        // A file of that name comes first.
        place.write("home/p/other.example:443", "");
        assert!(explain(&["other.example:443"]).contains("read  yes"));
        assert!(place.fails(&["policy", "explain", "ftp://a.example"]).contains("no protocol"));
        let warned = place.atoll(&["policy", "explain", "--allow-host", "*", url]);
        let warned = String::from_utf8_lossy(&warned.stderr).into_owned();
        assert!(warned.contains("warning: --allow-host: \"*\" lets every host"), "{warned}");
    });
}

#[test]
fn presets_are_listed_and_printed() {
    each(|place| {
        let listed = place.succeeds(&["policy", "presets"]);
        assert!(listed.contains("python       Python packages"), "{listed}");
        let file = place.succeeds(&["policy", "presets", "python"]);
        assert!(file.contains("\n  # ") && file.contains("\"https://pypi.org\""), "{file}");
        let json = |args: &[&str]| -> serde_json::Value {
            serde_json::from_str(&place.succeeds(args)).unwrap()
        };
        let all = json(&["policy", "presets", "--json"]);
        let count = all["presets"].as_array().unwrap().len();
        assert_eq!(count, listed.lines().count());
        let one = json(&["policy", "presets", "python", "--json"]);
        assert_eq!(
            (&one["name"], &one["allow"][0]),
            (&"python".into(), &"https://pypi.org".into())
        );
        insta::assert_snapshot!(place.fails(&["policy", "presets", "pyton"]), @r#"
        error: there is no preset "pyton"
        hint: did you mean "python"?
        "#);
    });
}

#[test]
fn files_that_others_could_write_do_not_speak_for_the_user() {
    each(|place| {
        place.user_policy("[limits]\npids = 7\n");
        let path = place.home().join(".config/atoll/config.toml");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o646)).unwrap();
        assert!(place.fails(&["policy", "show"]).contains("can be written by every user"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
        assert!(place.asked_for(&[]).contains("pids = 7"), "control");
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(12345), None).is_ok() {
            assert!(place.fails(&["policy", "show"]).contains("belongs to user 12345"));
        }
    });
}

#[test]
fn a_trusted_file_in_the_project_is_refused() {
    each(|place| {
        place.write("home/p/own.toml", "[kernel]\nptrace = true\n");
        assert!(
            place
                .fails(&["policy", "show", "--policy", "own.toml"])
                .contains("lies in the project")
        );
        symlink("p/own.toml", place.home().join("link.toml")).unwrap();
        assert!(
            place
                .fails(&["policy", "show", "--policy", "../link.toml"])
                .contains("lies in the project")
        );
        place.write("home/own.toml", "[kernel]\nptrace = true\n");
        assert!(place.asked_for(&["--policy", "../own.toml"]).contains("ptrace = true"), "control");
        symlink("..", place.project().join("up")).unwrap();
        assert!(
            place
                .fails(&["policy", "show", "--policy", "up/own.toml"])
                .contains("lies in the project")
        );
    });
}

#[test]
fn a_trusted_file_cannot_be_planted_for_the_next_run() {
    each(|place| {
        let config = place.home().join(".config");
        place.make_dir(&config);
        let explain = |path: &str| {
            let output =
                place.atoll_in(&config, &["policy", "explain", "--allow-write", "/atoll/", path]);
            place.shorten(&output.stdout).lines().nth(2).unwrap_or_default().to_owned()
        };
        assert!(
            explain("atoll/config.toml").starts_with("write no "),
            "{}",
            explain("atoll/config.toml")
        );
        assert!(explain("atoll/other").starts_with("write yes"), "control");
        assert!(
            place.fails(&["policy", "show", "--write", "../.config"]).contains("cannot be granted")
        );
    });
}

#[test]
fn the_policy_of_a_project_is_a_regular_file() {
    each(|place| {
        place.write("home/elsewhere.toml", "");
        let path = place.project().join("atoll.toml");
        symlink("../elsewhere.toml", &path).unwrap();
        assert!(place.fails(&["policy", "show"]).contains("is a symbolic link"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(place.fails(&["policy", "show"]).contains("is not a regular file"));
        fs::remove_dir(&path).unwrap();
        let fifo = place.around.bare("mkfifo").arg(&path).status().unwrap();
        assert!(fifo.success());
        assert!(
            place.fails(&["policy", "show"]).contains("is not a regular file"),
            "without waiting for a writer"
        );
    });
}

#[test]
fn the_project_is_the_work_tree_around_the_current_directory() {
    each(|place| {
        let project_from = |dir: &str, args: &[&str]| {
            let dir = place.root().join(dir);
            place.make_dir(&dir);
            let output = place.atoll_in(&dir, &[&["policy", "show"], args].concat());
            let text =
                place.shorten(&if output.status.success() { output.stdout } else { output.stderr });
            text.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(project_from("home/p/src/deep", &[]), "# project ROOT/home/p");
        assert_eq!(project_from("home/plain/x", &[]), "# project ROOT/home/plain/x");
        assert_eq!(
            project_from("home/plain", &["--project", "../p/src"]),
            "# project ROOT/home/p/src"
        );
        place.write("home/tree/.git", "gitdir: ../p/.git/worktrees/tree\n");
        assert_eq!(
            project_from("home/tree/a", &[]),
            "# project ROOT/home/tree",
            "a work tree of another repository"
        );
        place.make_dir(&place.home().join("odd/.git"));
        assert_eq!(
            project_from("home/odd/a", &[]),
            "# project ROOT/home/odd/a",
            "an empty .git is no repository"
        );
        place.write("home/.git/HEAD", "");
        assert_eq!(
            project_from("home/plain/x", &[]),
            "# project ROOT/home/plain/x",
            "a repository of the whole home"
        );
        assert_eq!(project_from("home/p/a b\nc*", &[]), "# project ROOT/home/p");
    });
}

#[test]
fn names_of_projects_are_bytes() {
    each(|place| {
        let dir = place.home().join(std::ffi::OsStr::from_bytes(b"odd \xff*\n"));
        place.make_dir(&dir);
        fs::write(dir.join("atoll.toml"), "limits.pids = 7\n").unwrap();
        place.give();
        let output = place.atoll_in(&dir, &["policy", "show"]);
        assert!(String::from_utf8_lossy(&output.stdout).contains("pids = 7"));
    });
}

#[test]
fn directories_that_are_no_project() {
    each(|place| {
        for dir in ["/", "/etc", "/usr", "/tmp", "/proc/self"] {
            let message = place.fails_in(Path::new(dir), &["policy", "show"]);
            assert!(message.contains("cannot be a project"), "{dir}: {message}");
        }
        assert!(place.fails_in(&place.home(), &["policy", "show"]).contains("cannot be a project"));
        assert!(
            place
                .fails(&["policy", "show", "--project", ".git/HEAD"])
                .contains("is not a directory")
        );
        assert!(place.fails(&["policy", "show", "--project", "gone"]).contains("No such file"));
        let gone = place.home().join("gone");
        place.make_dir(&gone);
        let script = format!("rmdir {gone:?}; exec {:?} policy show", place.around.program());
        let output =
            place.around.bare("sh").args(["-c", &script]).current_dir(&gone).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains("the current directory has been deleted"), "{message}");
    });
}

#[test]
fn grants_of_flags_are_taken_from_the_current_directory() {
    each(|place| {
        place.write("home/data/x", "");
        assert_eq!(
            place.asked_for(&["--read", "../data"]).lines().nth(1),
            Some("files.read = \"ROOT/home/data\" # --read")
        );
        assert!(place.fails(&["policy", "show", "--read", "../gone"]).contains("does not exist"));
        assert!(place.fails(&["policy", "show", "--write", ".."]).contains("cannot be granted"));
    });
}

#[test]
fn a_path_is_explained_where_it_leads() {
    each(|place| {
        place.write("home/p/.aiignore", "# secrets\n*.pem\n");
        place.write("home/p/key.pem", "");
        place.write("home/p/src/.git/HEAD", "");
        place.write("home/.ssh/id", "");
        place.write("home/out/x", "");
        symlink("key.pem", place.project().join("innocent")).unwrap();
        symlink("../.ssh", place.project().join("link")).unwrap();
        symlink("loop", place.project().join("loop")).unwrap();
        let explain =
            |path: &str| place.succeeds(&["policy", "explain", "--write", "../out", path]);
        let all: String = [
            "src/main.rs",
            "key.pem",
            "innocent",
            "link/id",
            ".git/HEAD",
            ".git/hooks/pre-commit",
            ".vscode/tasks.json",
            "dep/.vscode/tasks.json",
            "src/.vscode/tasks.json",
            "AGENTS.md",
            ".aiignore",
            "../out/x",
            "../other",
            "/usr/bin/env",
            "/etc/shadow",
            "/data/x",
            "../p/./src/../key.pem",
        ]
        .iter()
        .map(|path| explain(path))
        .collect();
        insta::assert_snapshot!(all, @r##"
        ROOT/home/p/src/main.rs (does not exist)
        read  yes  it is in the project
        write yes  it is in the project
        ROOT/home/p/key.pem
        read  no   hidden by "*.pem" (.aiignore:2)
        write no   hidden by "*.pem" (.aiignore:2)
        ROOT/home/p/key.pem
        read  no   hidden by "*.pem" (.aiignore:2)
        write no   hidden by "*.pem" (.aiignore:2)
        ROOT/home/.ssh/id
        read  no   the home directory is hidden; inside it is private and empty
        write no   the home directory is hidden; inside it is private and empty
        ROOT/home/p/.git/HEAD
        read  yes  it is in the project
        write yes  it is in the project
        ROOT/home/p/.git/hooks/pre-commit (does not exist)
        read  yes  it is in the project
        write no   "hooks" of a repository is protected (programs that git runs); --allow-write PATTERN or protect.allow lifts it
        ROOT/home/p/.vscode/tasks.json (does not exist)
        read  yes  it is in the project
        write no   ".vscode" is protected (tasks and settings that run programs when the folder is opened); --allow-write PATTERN or protect.allow lifts it
        ROOT/home/p/dep/.vscode/tasks.json (does not exist)
        read  yes  it is in the project
        write yes  it is in the project
        ROOT/home/p/src/.vscode/tasks.json (does not exist)
        read  yes  it is in the project
        write no   ".vscode" is protected (tasks and settings that run programs when the folder is opened); --allow-write PATTERN or protect.allow lifts it
        ROOT/home/p/AGENTS.md (does not exist)
        read  yes  it is in the project
        write yes  it is in the project; a change to "AGENTS.md" is reported (text that agents take as instructions)
        ROOT/home/p/.aiignore
        read  yes  it is in the project
        write no   ".aiignore" is protected (what the next run hides); --allow-write PATTERN or protect.allow lifts it
        ROOT/home/out/x
        read  yes  granted by files.write ROOT/home/out (--write)
        write yes  granted by files.write ROOT/home/out (--write)
        ROOT/home/other (does not exist)
        read  no   the home directory is hidden; inside it is private and empty
        write no   the home directory is hidden; inside it is private and empty
        /usr/bin/env
        read  yes  it belongs to the system
        write no   it is shown read-only; --write PATH or files.write makes a place writable
        /etc/shadow
        read  no   the sandbox has an /etc of its own, with what programs need and no secrets
        write no   the sandbox has an /etc of its own, with what programs need and no secrets
        /data/x (does not exist)
        read  no   it is not part of the view; --read PATH or files.read shows it
        write no   it is not part of the view; --read PATH or files.read shows it
        ROOT/home/p/key.pem
        read  no   hidden by "*.pem" (.aiignore:2)
        write no   hidden by "*.pem" (.aiignore:2)
        "##);
        assert!(place.fails(&["policy", "explain", "loop"]).contains("too many links"));
    });
}

#[test]
fn a_path_is_explained_by_workspace_mode() {
    each(|place| {
        let explain = |mode: &str, path: &str| {
            place.succeeds(&["policy", "explain", "--workspace", mode, path])
        };
        let all =
            [explain("review", "a"), explain("review", ".envrc"), explain("none", "a")].concat();
        insta::assert_snapshot!(all, @r##"
        ROOT/home/p/a (does not exist)
        read  yes  it is in the project
        write copy into a copy, which reaches the project by `atoll apply`
        ROOT/home/p/.envrc (does not exist)
        read  yes  it is in the project
        write copy into a copy, which reaches the project by `atoll apply`; that asks first, since ".envrc" is protected (commands that direnv runs on entering the directory)
        ROOT/home/p/a (does not exist)
        read  no   the workspace mode is none: the project is not shown
        write no   the workspace mode is none: the project is not shown
        "##);
    });
}

#[test]
fn json_is_one_object() {
    each(|place| {
        place.write("home/p/.aiignore", "*.pem\n");
        place.write("home/p/key.pem", "");
        let shown: serde_json::Value =
            serde_json::from_str(&place.succeeds(&["policy", "show", "--json", "--cpus", "1.5"]))
                .unwrap();
        assert_eq!(shown["project"], "ROOT/home/p");
        assert_eq!(shown["hidden"][0]["path"], "key.pem");
        assert_eq!(shown["hidden"][0]["origin"]["line"], 1);
        let cpus = shown["values"]
            .as_array()
            .unwrap()
            .iter()
            .find(|value| value["key"] == "limits.cpus")
            .unwrap();
        assert_eq!((&cpus["value"], &cpus["origin"]["flag"]), (&1.5.into(), &"--cpus".into()));
        let explained: serde_json::Value =
            serde_json::from_str(&place.succeeds(&["policy", "explain", "--json", "key.pem"]))
                .unwrap();
        assert_eq!(
            (&explained["read"]["answer"], &explained["read"]["rule"]),
            (&"no".into(), &"hidden".into())
        );
        assert_eq!(explained["exists"], true);
    });
}

#[test]
fn hard_links_to_hidden_files_are_warned_of() {
    each(|place| {
        place.write("home/p/key", "");
        let warned = || place.shorten(&place.atoll(&["policy", "show", "--hide", "key"]).stderr);
        assert_eq!(warned(), "", "control");
        fs::hard_link(place.project().join("key"), place.project().join("copy")).unwrap();
        assert!(warned().contains("key is hidden, but the file has other names"));
    });
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    each(|place| {
        let script =
            format!("{:?} policy show | true; echo ${{PIPESTATUS[0]}}", place.around.program());
        let output = place
            .around
            .bare("bash")
            .args(["-c", &script])
            .current_dir(place.project())
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "0\n",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    });
}
