use super::*;
use crate::spec::{Lower, User, Watches};

fn spec(view: Vec<Entry>) -> Spec {
    let user = User { inside_uid: 1000, inside_gid: 1000, outside_uid: 1000, outside_gid: 1000 };
    Spec { user, root: None, view, hostname: "atoll".to_owned(), private_bytes: 1 << 20 }
}

fn lines(view: Vec<Entry>) -> String {
    let steps = plan(&spec(view)).unwrap();
    steps.iter().map(|step| format!("{step}\n")).collect()
}

#[test]
fn parents_come_first_and_a_writable_place_is_kept_before_it_is_filled() {
    let project = What::Bind {
        source: Source::Path { path: "/home/ada/work".into(), expect: None },
        kind: Kind::Directory,
        access: Access::ReadWrite,
    };
    let view = vec![
        Entry::new("/home/ada/work", project),
        Entry::private("/home/ada", 0o700),
        Entry::system("/usr"),
        Entry::link("/bin", "usr/bin"),
    ];
    insta::assert_snapshot!(lines(view), @r#"
    make an empty root of 1048576 bytes
    make link "/bin" to "usr/bin"
    make directory "/home" 0755
    make directory "/home/ada" 0700
    keep "/home/ada" writable
    make directory "/home/ada/work" 0755
    bind "/home/ada/work" at "/home/ada/work" read-write
    make directory "/usr" 0755
    bind "/usr" at "/usr" read-only
    leave the old root
    make the root read-only
    set host name "atoll"
    "#);
}

#[test]
fn an_overlay_is_mounted_while_the_host_is_there_and_bound_later() {
    let overlay = What::Bind {
        source: Source::Overlay {
            lowers: vec![
                Lower { path: "/s/base".into(), expect: None },
                Lower { path: "/w".into(), expect: Some((1, 2)) },
            ],
            upper: "/s/upper".into(),
            work: "/s/work".into(),
        },
        kind: Kind::Directory,
        access: Access::ReadWrite,
    };
    let text = lines(vec![Entry::system("/usr"), Entry::new("/w", overlay)]);
    insta::assert_snapshot!(text, @r#"
    mount an overlay of "/s/base" and "/w" with writes in "/s/upper"
    make an empty root of 1048576 bytes
    make directory "/usr" 0755
    bind "/usr" at "/usr" read-only
    make directory "/w" 0755
    bind overlay 0 at "/w"
    leave the old root
    make the root read-only
    set host name "atoll"
    "#);
}

#[test]
fn a_writable_root_is_bound_first_and_entered_last() {
    let mut spec = spec(vec![
        Entry::private("/tmp", 0o1777),
        Entry::private("/dev/shm", 0o1777),
        Entry::new("/dev", What::Devices),
        Entry::system("/srv/data"),
    ]);
    spec.root = Some(Source::Late);
    let steps = plan(&spec).unwrap();
    let text: String = steps.iter().map(|step| format!("{step}\n")).collect();
    let devices = |line: &&str| !line.contains("/system/dev/") || line.contains("shm");
    let text: Vec<&str> = text.lines().filter(devices).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    make an empty root of 1048576 bytes
    make directory "/system" 0755
    bind the next tree at "/system" read-write
    make directory "/private-0" 0755
    make directory "/system/dev" 0755
    place "/private-0" at "/system/dev"
    make directory "/private-1" 1777
    make directory "/system/dev/shm" 0755
    place "/private-1" at "/system/dev/shm"
    make directory "/system/srv" 0755
    make directory "/system/srv/data" 0755
    bind "/srv/data" at "/system/srv/data" read-only
    make directory "/private-2" 1777
    make directory "/system/tmp" 0755
    place "/private-2" at "/system/tmp"
    leave the old root
    make "/system/dev" read-only
    make "/system" the root
    set host name "atoll"
    "#);
}

#[test]
fn devices_are_few_and_procfs_is_covered_only_for_root() {
    let proc = |cover_root_writable| {
        Entry::new("/proc", What::Proc { cover_root_writable, nested_userns: false, watches: None })
    };
    let view = vec![Entry::new("/dev", What::Devices), proc(false)];
    let text = lines(view);
    for name in DEVICES {
        assert!(text.contains(&format!("bind device {name} at \"/dev/{name}\"")), "{text}");
    }
    assert!(!text.contains("cover"));
    assert!(lines(vec![proc(true)]).contains("cover \"/proc/sys\""));
}

#[test]
fn namespaces_and_watches_are_limited_before_anything_of_procfs_is_covered() {
    let watches = Some(Watches { instances: 64, watches: 4096 });
    let steps = |nested_userns| {
        let what = What::Proc { cover_root_writable: true, nested_userns, watches };
        lines(vec![Entry::new("/proc", what)])
    };
    let forbid = "forbid user namespaces through \"/proc\"";
    let text = steps(false);
    let place = |of: &str| text.find(of).unwrap_or_else(|| panic!("no {of} in {text}"));
    assert!(place("mount proc") < place(forbid));
    assert!(place(forbid) < place("cover \"/proc/sys\""));
    assert!(text.contains("blank \"/proc/keys\""));
    assert!(!steps(true).contains(forbid));
    let limit = "limit watches to 64 and 4096 through \"/proc\"";
    for text in [steps(false), steps(true)] {
        assert!(text.find(limit).unwrap() < text.find("cover \"/proc/sys\"").unwrap());
    }
}

#[test]
fn paths_that_cannot_be_placed_are_refused() {
    let error = |view| plan(&spec(view)).unwrap_err();
    let private = |at: &str| Entry::private(at, 0o755);
    assert_eq!(error(vec![private("tmp")]), PlanError::NotPlain("tmp".into()));
    assert_eq!(error(vec![private("/a/../b")]), PlanError::NotPlain("/a/../b".into()));
    assert_eq!(error(vec![private("/")]), PlanError::NotPlain("/".into()));
    assert_eq!(error(vec![private("/a"), private("/a")]), PlanError::Twice("/a".into()));
    let below = error(vec![Entry::file("/etc/x", "1"), private("/etc/x/y")]);
    assert_eq!(below, PlanError::Below { above: "/etc/x".into(), below: "/etc/x/y".into() });
}

#[test]
fn host_names_are_bounded() {
    let mut long = spec(Vec::new());
    long.hostname = "x".repeat(65);
    assert!(matches!(plan(&long), Err(PlanError::Hostname(_))));
}
