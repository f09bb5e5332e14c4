//! Merging, tested against an oracle that asks the result what it allows.

use super::*;
use crate::policy::{KEYS, Network, NetworkMode, NetworkRule, Place, parse};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const PROJECT: &str = "/home/u/p";

fn host() -> Host {
    Host {
        home: Some("/home/u".into()),
        project: PROJECT.into(),
        system: vec!["/usr".into()],
        trusted: vec![
            "/home/u/.config/atoll/config.toml".into(),
            "/home/u/p/own/policy.toml".into(),
        ],
    }
}

/// A machine where `/gone` does not exist, `/data/link` leads to `/secret` and every
/// other path is what it says.
fn layer(level: Level, text: &str) -> Layer {
    let document = parse(text.as_bytes()).unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let paths = document.host_paths().map(|path| (path.to_owned(), resolve(path))).collect();
    Layer { level, file: Some(Path::new(level.as_str()).into()), document, paths }
}

fn resolve(path: &Path) -> Resolution {
    let spelled = match path.strip_prefix("~") {
        Ok(rest) => Path::new("/home/u").join(rest).components().collect(),
        Err(_) => path.to_owned(),
    };
    let real = match spelled.strip_prefix("/data/link") {
        _ if spelled.starts_with("/gone") => None,
        Ok(rest) => Some(Path::new("/secret").join(rest).components().collect()),
        Err(_) => Some(spelled.clone()),
    };
    let is_socket = spelled.extension().is_some_and(|extension| extension == "sock");
    Resolution { spelled, real, is_socket }
}

fn merged(levels: &[(Level, &str)]) -> Result<Merged, Vec<MergeError>> {
    let layers: Vec<Layer> = levels.iter().map(|(level, text)| layer(*level, text)).collect();
    merge(&layers, &host())
}

fn policy(levels: &[(Level, &str)]) -> EffectivePolicy {
    merged(levels).unwrap_or_else(|errors| panic!("{}", join(&errors))).policy
}

fn join<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The first thing that `narrow` allows and `base` does not.
fn wider(base: &EffectivePolicy, narrow: &EffectivePolicy) -> Option<String> {
    let grants = |policy: &EffectivePolicy, path: &str, writable: bool| {
        let covers = |list: &[Sourced<Grant>]| {
            list.iter().any(|grant| Path::new(path).starts_with(&grant.value.path))
        };
        covers(&policy.files.write) || (!writable && covers(&policy.files.read))
    };
    for path in [
        "/data",
        "/data/a",
        "/data/a/b",
        "/data/link",
        "/secret",
        "/secret/x",
        "/wide/w",
        "/home/u/x",
        "/usr",
    ] {
        for writable in [false, true] {
            if grants(narrow, path, writable) && !grants(base, path, writable) {
                return Some(format!("{path} (writable: {writable})"));
            }
        }
    }
    if narrow.workspace.mode.value < base.workspace.mode.value {
        return Some("mode".into());
    }
    if base.workspace.strict_ignore.value && !narrow.workspace.strict_ignore.value {
        return Some("strict_ignore".into());
    }
    if narrow.workspace.apply.value < base.workspace.apply.value {
        return Some("apply".into());
    }
    let asks =
        |policy: &EffectivePolicy, pattern| policy.exec_ask.iter().any(|one| one.value == pattern);
    if let Some(missing) = base.exec_ask.iter().find(|one| !asks(narrow, one.value.clone())) {
        return Some(format!("runs {} unasked", missing.value));
    }
    // Patterns in these tests are plain names, so the last equal one decides.
    let hides = |policy: &EffectivePolicy, name: &str| {
        let last =
            policy.files.hide.iter().rev().find(|item| item.value.trim_start_matches('!') == name);
        last.is_some_and(|item| !item.value.starts_with('!'))
    };
    for name in [".env", "keys"] {
        if hides(base, name) && !hides(narrow, name) {
            return Some(format!("unhides {name}"));
        }
    }
    for name in &base.files.ignore_files {
        if !narrow.files.ignore_files.iter().any(|other| other.value == name.value) {
            return Some(format!("ignore file {}", name.value));
        }
    }
    for path in [".vscode/x", ".husky/y", "Makefile", "sub/Makefile", "src/a"] {
        let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        let rank = |policy: &EffectivePolicy| match policy
            .protect_rule(&parts)
            .map(|rule| rule.value.verdict)
        {
            Some(Verdict::Deny) => 0,
            None => 1,
            Some(Verdict::Allow) => 2,
        };
        if rank(narrow) > rank(base) {
            return Some(format!("lifts {path}"));
        }
    }
    for name in ["PATH", "A", "AB", "TOKEN", "LC_ALL"] {
        if narrow.env.passes(name.as_bytes()) && !base.env.passes(name.as_bytes()) {
            return Some(format!("passes {name}"));
        }
    }
    if narrow
        .env
        .set
        .iter()
        .any(|(name, value)| base.env.set.get(name).map(|base| &base.value) != Some(&value.value))
    {
        return Some("sets a variable".into());
    }
    fn more<T: PartialOrd>(base: &Sourced<Option<T>>, narrow: &Sourced<Option<T>>) -> bool {
        base.value
            .as_ref()
            .is_some_and(|base| narrow.value.as_ref().is_none_or(|narrow| narrow > base))
    }
    let (b, n) = (&base.limits, &narrow.limits);
    if more(&b.memory, &n.memory) || more(&b.disk, &n.disk) || more(&b.pids, &n.pids) {
        return Some("memory, disk or pids".into());
    }
    if more(&b.cpus, &n.cpus) || more(&b.open_files, &n.open_files) || more(&b.time, &n.time) {
        return Some("cpus, open files or time".into());
    }
    if narrow.kernel.ptrace.value && !base.kernel.ptrace.value {
        return Some("ptrace".into());
    }
    if narrow.kernel.nested_userns.value && !base.kernel.nested_userns.value {
        return Some("nested_userns".into());
    }
    if let Some(what) = wider_network(&base.network, &narrow.network) {
        return Some(what.into());
    }
    (narrow.image.value != base.image.value).then(|| "image".into())
}

/// Rules are text here, so all that is asked is that the user's are the same.
fn wider_network(base: &Network, narrow: &Network) -> Option<&'static str> {
    fn more<T: PartialOrd>(base: &Sourced<Option<T>>, narrow: &Sourced<Option<T>>) -> bool {
        base.value
            .as_ref()
            .is_some_and(|base| narrow.value.as_ref().is_none_or(|narrow| narrow > base))
    }
    let (b, n) = (&base.budgets, &narrow.budgets);
    let budgets = more(&b.requests_max, &n.requests_max)
        || more(&b.bytes_max, &n.bytes_max)
        || more(&b.requests_per_host_max, &n.requests_per_host_max)
        || more(&b.bytes_per_host_max, &n.bytes_per_host_max);
    [
        ("network mode", narrow.mode.value < base.mode.value),
        ("rules of the user", narrow.user != base.user),
        ("explain", narrow.explain.value && !base.explain.value),
        ("ipv6", narrow.ipv6.value && !base.ipv6.value),
        ("proxy variables", narrow.proxy_variables.value != base.proxy_variables.value),
        ("stand-ins", narrow.stand_in.value != base.stand_in.value),
        ("proxy", narrow.upstream_proxy.value != base.upstream_proxy.value),
        ("secrets", narrow.secrets != base.secrets),
        ("budgets", budgets),
    ]
    .into_iter()
    .find_map(|(what, is_wider)| is_wider.then_some(what))
}

/// For each key: what would widen is refused from the project with the line for the
/// user, the same text from the user is accepted, and the oracle sees it.
#[test]
fn a_project_cannot_widen_any_key() {
    let check = |user: &str, project: &str, key: &str, line: &str| {
        let errors = merged(&[(Level::User, user), (Level::Project, project)]).unwrap_err();
        let MergeErrorKind::Widens { user_line, .. } = &errors[0].kind else {
            panic!("{}", join(&errors))
        };
        assert_eq!(
            (errors.len(), errors[0].key, user_line.as_deref()),
            (1, key, Some(line)),
            "{}",
            join(&errors)
        );
        assert_eq!(
            (errors[0].origin.level, errors[0].origin.line().is_some()),
            (Level::Project, true)
        );
        let section = key.split('.').next().unwrap();
        let as_user =
            policy(&[(Level::User, user), (Level::PolicyFile, &format!("[{section}]\n{line}"))]);
        let control = wider(&policy(&[(Level::User, user)]), &as_user);
        assert!(control.is_some(), "control: the oracle must see that {line} is wider");
    };
    check(
        "workspace.mode = 'review'",
        "workspace.mode = 'live'",
        "workspace.mode",
        "mode = \"live\"",
    );
    check(
        "workspace.mode = 'none'",
        "workspace.mode = 'review'",
        "workspace.mode",
        "mode = \"review\"",
    );
    check(
        "workspace.apply = 'ask'",
        "workspace.apply = 'confirm'",
        "workspace.apply",
        "apply = \"confirm\"",
    );
    let strict = "workspace.strict_ignore = true";
    check(
        strict,
        "workspace.strict_ignore = false",
        "workspace.strict_ignore",
        "strict_ignore = false",
    );
    check("files.read = ['/data/a']", "files.read = ['/data']", "files.read", "read = [\"/data\"]");
    check(
        "files.read = ['/data']",
        "files.write = ['/data/a']",
        "files.write",
        "write = [\"/data/a\"]",
    );
    check("files.hide = ['.env']", "files.hide = ['!.env']", "files.hide", "hide = [\"!.env\"]");
    check("", "protect.allow = ['.vscode/']", "protect.allow", "allow = [\".vscode/\"]");
    check("", "env.pass = ['TOKEN']", "env.pass", "pass = [\"TOKEN\"]");
    check("env.pass = ['AB']", "env.pass = ['A*']", "env.pass", "pass = [\"A*\"]");
    check("", "env.set = {A = 'x'}", "env.set", "set = { \"A\" = \"x\" }");
    check("limits.memory = '1GiB'", "limits.memory = '2GiB'", "limits.memory", "memory = \"2GiB\"");
    check("", "limits.disk = 'none'", "limits.disk", "disk = \"none\"");
    check("", "limits.pids = 5000", "limits.pids", "pids = 5000");
    check("limits.cpus = 1", "limits.cpus = 1.5", "limits.cpus", "cpus = 1.5");
    check("", "limits.open_files = 70000", "limits.open_files", "open_files = 70000");
    check("limits.time = '1m'", "limits.time = '90s'", "limits.time", "time = \"1m30s\"");
    check("", "kernel.ptrace = true", "kernel.ptrace", "ptrace = true");
    check("", "kernel.nested_userns = true", "kernel.nested_userns", "nested_userns = true");
    check("", "network.mode = 'rules'", "network.mode", "mode = \"rules\"");
    check("network.explain = false", "network.explain = true", "network.explain", "explain = true");
    check("network.ipv6 = false", "network.ipv6 = true", "network.ipv6", "ipv6 = true");
    check(
        "",
        "network.proxy_variables = true",
        "network.proxy_variables",
        "proxy_variables = true",
    );
    check("", "network.stand_in = '9.0.0.0/16'", "network.stand_in", "stand_in = \"9.0.0.0/16\"");
    let proxy = "upstream_proxy = \"http://p:1\"";
    check("", "network.upstream_proxy = 'http://p:1'", "network.upstream_proxy", proxy);
    let none = "upstream_proxy = \"none\"";
    let user = "network.upstream_proxy = 'http://p:1'";
    check(user, "network.upstream_proxy = 'none'", "network.upstream_proxy", none);
    for (key, most, more) in [
        ("requests_max", "5", "6"),
        ("bytes_max", "\"1GiB\"", "\"2GiB\""),
        ("requests_per_host_max", "5", "\"none\""),
        ("bytes_per_host_max", "\"1KiB\"", "\"1MiB\""),
    ] {
        let (user, project) =
            (format!("network.{key} = {most}"), format!("network.{key} = {more}"));
        let full = KEYS.iter().find(|known| known.name == key).unwrap();
        let full = format!("{}.{}", full.section, full.name);
        check(&user, &project, &full, &format!("{key} = {more}"));
    }
    check("", "root.image = '/srv/image'", "root.image", "image = \"/srv/image\"");
}

#[test]
fn a_project_sets_no_secret() {
    let secret = "[network.secret.A]\nat = ['https://a.example']\nas = 'bearer'\n";
    let errors = merged(&[(Level::User, secret), (Level::Project, secret)]).unwrap_err();
    assert_eq!(
        join(&errors),
        "project:1: network.secret: a project's policy may only narrow; where A may go is for its owner to say"
    );
    assert_eq!(policy(&[(Level::User, secret)]).network.secrets.len(), 1, "control");
}

#[test]
fn rules_of_a_project_are_a_level_of_their_own() {
    let user =
        "[network]\nmode = 'rules'\npresets = ['python']\nallow = ['a.example']\nrequests_max = 9";
    let levels = |project| {
        let flags = (Level::Flag, "network.allow = ['b.example']");
        policy(&[(Level::User, user), (Level::Project, project), flags]).network
    };
    let of = |rules: &[Sourced<NetworkRule>]| {
        let rules =
            rules.iter().map(|rule| format!("{}={}", rule.value.list.key(), rule.value.text));
        rules.collect::<Vec<_>>().join(" ")
    };
    for project in ["", "network.requests_max = 8"] {
        assert_eq!(levels(project).project, None, "nothing about rules");
    }
    let network = levels("network.deny = ['c.example']\nnetwork.ask = ['*']");
    assert_eq!(
        of(&network.user),
        "network.presets=python network.allow=a.example network.allow=b.example"
    );
    let project = network.project.unwrap();
    assert_eq!(of(&project.rules), "network.ask=* network.deny=c.example");
    assert_eq!(project.keeps, None);
    // An empty list keeps nothing, which is not the same as no list.
    for text in ["network.allow = []", "network.presets = []"] {
        let project = levels(text).project.unwrap();
        assert_eq!((project.rules.len(), project.keeps.unwrap().line()), (0, Some(1)));
    }
    let off = policy(&[(Level::User, user), (Level::Project, "network.mode = 'none'")]).network;
    assert_eq!((off.mode.value, off.mode.origin.level), (NetworkMode::None, Level::Project));
}

#[test]
fn a_link_in_a_grant_gains_nothing() {
    let user = (Level::User, "files.read = ['/data']");
    let errors = merged(&[user, (Level::Project, "files.read = ['/data/link']")]).unwrap_err();
    assert_eq!(
        join(&errors),
        "project:1: files.read: a project's policy may only narrow; /secret is not readable by what the user granted"
    );
    let kept = policy(&[user, (Level::Project, "files.read = ['/data/a']")]).files.read;
    assert_eq!(
        kept[0].value.path,
        Path::new("/data/a"),
        "control: below the grant without the link"
    );
}

#[test]
fn a_project_narrows() {
    let user = "files.read = ['/data', '/srv/x']\nfiles.write = ['/wide/w']\nfiles.ignore_files = ['.a']\n\
                protect.allow = ['.vscode/', '.husky/']\nenv.pass = ['AB*']\nlimits.memory = '2GiB'\nkernel.ptrace = true";
    let project = "workspace.mode = 'review'\nfiles.read = ['/data/a']\nfiles.write = []\nfiles.hide = ['.env']\n\
                   files.ignore_files = ['.b']\nprotect.allow = ['.husky/']\nprotect.deny = ['Makefile']\n\
                   env.pass = ['PATH', 'ABC']\nlimits.memory = '1GiB'\nlimits.time = '1m'\nkernel.ptrace = false";
    let policy = policy(&[(Level::User, user), (Level::Project, project)]);
    let shown: Vec<String> = policy
        .entries()
        .iter()
        .filter(|entry| entry.origin.level != Level::BuiltIn)
        .map(|entry| format!("{} = {} ({})", entry.key, entry.value, entry.origin))
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    workspace.mode = "review" (project:1)
    files.read = "/data/a" (project:2)
    files.hide = ".env" (project:4)
    files.ignore_files = ".a" (user:3)
    files.ignore_files = ".b" (project:5)
    protect.allow = ".husky/" (user:4)
    protect.deny = "Makefile" (project:7)
    env.pass = "PATH" (project:8)
    env.pass = "ABC" (project:8)
    limits.memory = "1GiB" (project:9)
    limits.time = "1m" (project:10)
    kernel.ptrace = false (project:11)
    "#);
}

#[test]
fn flags_have_the_last_word() {
    let levels = [
        (Level::Project, "limits.pids = 100\nprotect.deny = ['Makefile']"),
        (Level::Flag, "limits.pids = 5000\nprotect.allow = ['Makefile']"),
    ];
    let policy = policy(&levels);
    assert_eq!(policy.limits.pids.value, Some(5000));
    assert_eq!(policy.protect_rule(&[b"Makefile"]).unwrap().value.verdict, Verdict::Allow);
}

#[test]
fn places_that_are_never_granted() {
    let refused = |key: &str, path: &str| {
        let errors = merged(&[(Level::User, &format!("files.{key} = ['{path}']"))]).unwrap_err();
        assert!(
            matches!(errors[0].kind, MergeErrorKind::Refused { .. }),
            "{key} {path}: {}",
            join(&errors)
        );
    };
    for path in [
        "/",
        "~",
        "/home",
        "/etc",
        "/etc/cron.d",
        "/usr/local",
        "/proc/self",
        "/run/user/1000",
        "/tmp",
        "/var",
    ] {
        refused("write", path);
    }
    for path in ["/", "/proc", "/dev/kvm", "/sys/kernel"] {
        refused("read", path);
    }
    let control = policy(&[(
        Level::User,
        "files.write = ['~/out', '/tmp/x', '/var/lib/x']\nfiles.read = ['/etc/x']",
    )]);
    assert_eq!((control.files.write.len(), control.files.read.len()), (3, 1));
}

#[test]
fn files_that_speak_for_the_user_stay_out_of_reach() {
    for path in ["~/.config", "~/.config/atoll", "~/.config/atoll/config.toml"] {
        let errors = merged(&[(Level::Flag, &format!("files.write = ['{path}']"))]).unwrap_err();
        assert!(matches!(errors[0].kind, MergeErrorKind::Refused { .. }), "{path}");
    }
    let policy =
        policy(&[(Level::Flag, "files.write = ['~/.config/x']\nprotect.allow = ['own/']")]);
    let verdict = |path: &[&[u8]]| policy.protect_rule(path).unwrap().value.verdict;
    assert_eq!(verdict(&[b"own", b"policy.toml"]), Verdict::Deny, "no exception lifts it");
    assert_eq!(verdict(&[b"own", b"other.toml"]), Verdict::Allow, "control");
}

#[test]
fn limits_under_which_nothing_runs() {
    let text = "[limits]\nmemory = '15MiB'\ndisk = 0\npids = 1\nopen_files = 3\ntime = '0s'\n";
    insta::assert_snapshot!(join(&merged(&[(Level::User, text)]).unwrap_err()), @r#"
    user:2: limits.memory: 15MiB is too little to run anything; the least is 16MiB
    user:3: limits.disk: 0 is too little to run anything; the least is 1MiB
    user:4: limits.pids: 1 is too little to run anything; the least is 4
    user:5: limits.open_files: 3 is too little to run anything; the least is 16
    user:6: limits.time: 0s is too little to run anything; the least is 1ms
    "#);
    policy(&[(
        Level::User,
        "[limits]\nmemory = '16MiB'\ndisk = '1MiB'\npids = 4\nopen_files = 16\ntime = '1ms'\n",
    )]);
}

#[test]
fn what_is_not_available_says_so() {
    let errors = merged(&[(Level::User, "workspace.mode = 'live'\ntier.isolation = 'microvm'")])
        .unwrap_err();
    insta::assert_snapshot!(join(&errors), @r#"
    user:2: tier.isolation: the tier "microvm" is not available yet; write "container"
    "#);
}

#[test]
fn a_missing_grant_is_an_error_only_where_it_was_typed() {
    let text = "files.read = ['/gone/*']";
    let warned = merged(&[(Level::User, text)]).unwrap();
    assert_eq!(
        join(&warned.warnings),
        "user:1: files.read: /gone/* does not exist, so nothing is granted (a star has no meaning in a grant)"
    );
    let mut flags = layer(Level::Flag, text);
    flags.file = None;
    flags.document.files.read.as_mut().unwrap().items[0].place = Place::Flag("--read");
    let errors = merge(&[flags], &host()).unwrap_err();
    assert_eq!(join(&errors), "--read: /gone/* does not exist");
}

#[test]
fn dead_rules_are_named_with_their_lines() {
    let text = "[files]\nread = [\n'/data',\n'/data/a',\n'/wide/w/x',\n'~/p/sub',\n'/usr/share',\n'~',\n'/x.sock',\n'/srv/r',\n'/srv/r']\n\
                write = ['/wide/w', '~/p/out']\n\
                hide = ['!a', '# b', '', '/home/../x', '~/c', 'd\\', 'fine', '\\#e']\n\
                [protect]\nallow = ['Makefile', '.vscode', 'src/', '.git/hooks/pre-commit', 'sub/.envrc', '.aiignore']\n";
    insta::assert_snapshot!(join(&merged(&[(Level::User, text)]).unwrap().warnings), @r##"
    user:4: files.read: /data/a is granted already by /data (user:3); a grant takes nothing away
    user:5: files.read: /wide/w/x is granted already by /wide/w (user:12); a grant takes nothing away
    user:6: files.read: /home/u/p/sub lies in the project, where the workspace mode decides; the grant is left out
    user:7: files.read: /usr/share is seen anyway: /usr belongs to the system that is shown
    user:8: files.read: /home/u shows the whole home directory, with every secret in it
    user:9: files.read: /x.sock is or holds sockets; read-only does not keep programs from connecting to them
    user:12: files.write: /home/u/p/out lies in the project, where the workspace mode decides; the grant is left out
    user:13: files.hide: "!a" hides nothing: it takes back what an earlier pattern hides, and it is the first
    user:13: files.hide: "# b" hides nothing: it is a comment; write \# for a name that starts with #
    user:13: files.hide: "" hides nothing: it is empty
    user:13: files.hide: "/home/../x" hides nothing: patterns are relative to the project and cannot climb
    user:13: files.hide: "~/c" hides nothing: patterns are relative to the project; what is outside is hidden anyway
    user:13: files.hide: "d\\" hides nothing: it ends in a backslash that escapes nothing
    user:15: protect.allow: "Makefile" names nothing that is protected; end it with / to mean whatever lies below
    "##);
}

fn lines(options: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), select(options).prop_map(str::to_owned)]
}

fn list(key: &'static str, options: &'static [&'static str]) -> impl Strategy<Value = String> {
    let written =
        subsequence(options, 0..=options.len().min(3)).prop_shuffle().prop_map(move |items| {
            format!(
                "{key} = [{}]",
                items.iter().map(|item| format!("'{item}'")).collect::<Vec<_>>().join(", ")
            )
        });
    prop_oneof![Just(String::new()), written]
}

fn document() -> impl Strategy<Value = String> {
    const PATHS: &[&str] = &[
        "/data",
        "/data/a",
        "/data/a/b",
        "/data/link",
        "/secret",
        "/wide/w",
        "~/x",
        "~/p/in",
        "/gone",
    ];
    let files = (
        list("files.read", PATHS),
        list("files.write", PATHS),
        list("files.hide", &[".env", "!.env", "keys", "!keys"]),
        list("files.ignore_files", &[".aiignore", ".b"]),
        list("protect.allow", &[".vscode/", ".husky", "Makefile", "src/", "/Makefile"]),
        list("protect.deny", &[".vscode/", "Makefile", "src/", "sub/Makefile"]),
        list("env.pass", &["A", "A*", "AB", "TOKEN", "LC_ALL"]),
        lines(&["env.set = {A = '1'}", "env.set = {A = '2', B = '1'}"]),
    );
    let rest = (
        lines(&["workspace.mode = 'live'", "workspace.mode = 'review'", "workspace.mode = 'none'"]),
        lines(&["workspace.strict_ignore = true", "workspace.strict_ignore = false"]),
        lines(&["limits.memory = '1GiB'", "limits.memory = '2GiB'", "limits.memory = 'none'"]),
        lines(&["limits.disk = '1GiB'", "limits.disk = '8GiB'", "limits.disk = 'none'"]),
        lines(&[
            "limits.pids = 100",
            "limits.pids = 'none'",
            "limits.cpus = 1.5",
            "limits.cpus = 2",
        ]),
        lines(&[
            "limits.open_files = 100",
            "limits.open_files = 'none'",
            "limits.time = '1m'",
            "limits.time = '2m'",
        ]),
        lines(&["kernel.ptrace = true", "kernel.ptrace = false", "kernel.nested_userns = true"]),
        lines(&["root.image = 'host'", "root.image = '/srv/image'"]),
    );
    let network = (
        lines(&["network.mode = 'none'", "network.mode = 'rules'"]),
        list("network.allow", &["a.example", "*", "*.b.example"]),
        list("network.deny", &["a.example", "*"]),
        lines(&["network.explain = true", "network.explain = false"]),
        lines(&["network.ipv6 = true", "network.ipv6 = false", "network.stand_in = '9.0.0.0/16'"]),
        lines(&["network.requests_max = 1", "network.requests_max = 2"]),
        lines(&["network.bytes_per_host_max = '1KiB'", "network.bytes_per_host_max = 'none'"]),
        lines(&["network.secret.A = {file = '/x'}", "network.upstream_proxy = 'http://p:1'"]),
    );
    (files, rest, network).prop_map(|(a, b, c)| {
        [
            a.0, a.1, a.2, a.3, a.4, a.5, a.6, a.7, b.0, b.1, b.2, b.3, b.4, b.5, b.6, b.7, c.0,
            c.1, c.2, c.3, c.4, c.5, c.6, c.7,
        ]
        .join("\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn no_project_allows_what_its_user_does_not(user in document(), file in document(), project in document()) {
        let base = [(Level::User, user.as_str()), (Level::PolicyFile, file.as_str())];
        let base_policy = policy(&base);
        let with_project = [base[0], base[1], (Level::Project, project.as_str())];
        if let Ok(merged) = merged(&with_project) {
            prop_assert_eq!(wider(&base_policy, &merged.policy), None);
        }
    }

    /// Without single lines the whole document is nearly always refused, so each
    /// line of a project is tried alone too.
    #[test]
    fn no_single_line_widens(user in document(), project in document()) {
        let base_policy = policy(&[(Level::User, &user)]);
        for line in project.lines() {
            if let Ok(merged) = merged(&[(Level::User, &user), (Level::Project, line)]) {
                prop_assert_eq!(wider(&base_policy, &merged.policy), None);
            }
        }
    }

    /// What a policy allows is itself no widening: its own text from the project changes nothing that counts.
    #[test]
    fn the_same_limits_again_are_accepted(memory in 16u64 << 20..1 << 50, pids in 4u32..100_000) {
        let text = format!("limits.memory = {memory}\nlimits.pids = {pids}");
        let twice = policy(&[(Level::User, &text), (Level::Project, &text)]);
        prop_assert_eq!(twice.limits.pids.origin.level, Level::User);
    }
}

/// Every level adds commands to ask about, and none takes one back.
#[test]
fn commands_to_ask_about_are_added() {
    let levels = [
        (Level::User, "exec.ask = ['git push *']"),
        (Level::PolicyFile, "exec.ask = ['rm *']"),
        (Level::Project, "exec.ask = []"),
    ];
    let policy = policy(&levels);
    let asked: Vec<&str> = policy.exec_ask.iter().map(|one| one.value.as_str()).collect();
    assert_eq!(asked, ["git push *", "rm *"]);
    let (_, more) = (Level::Project, "exec.ask = ['make deploy']");
    let policy = self::policy(&[levels[0], (Level::Project, more)]);
    assert_eq!(policy.exec_ask[1].origin.level, Level::Project);
}
