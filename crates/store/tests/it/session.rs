//! Sessions on disk: made, found again, ended, discarded.

use super::support::{as_root_and_user, is_root, may_as_root, run_script};
use atoll_store::Format;
use atoll_store::session::{NewSession, SessionError, Sessions};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! both {
    ($($name:ident => $body:block)*) => { $(
        #[test]
        fn $name() {
            fn body() $body
            as_root_and_user(concat!("session::", stringify!($name)), body);
        }
    )* };
}

struct Home {
    root: tempfile::TempDir,
    sessions: Sessions,
}

impl Home {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("atoll-session-").tempdir().unwrap();
        std::fs::create_dir(root.path().join("project")).unwrap();
        let sessions = Sessions::open(&root.path().join("state/atoll")).unwrap();
        Self { root, sessions }
    }

    fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("state/atoll/sessions")
    }

    fn format() -> Format {
        if is_root() { Format::Trusted } else { Format::User }
    }

    fn create(&self, masked: &[&str]) -> atoll_store::session::Session {
        let masked = masked.iter().map(PathBuf::from).collect();
        let new = NewSession {
            project: &self.project(),
            format: Self::format(),
            masked,
            written_by: None,
            apply_asks: None,
        };
        self.sessions.create(&new).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Modes that tests took away would keep an ordinary user from cleaning up.
        Command::new("chmod").args(["-R", "u+rwX"]).arg(self.root.path()).output().ok();
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

both! {
    a_session_is_found_as_it_was_made => {
        let home = Home::new();
        std::fs::set_permissions(home.project(), PermissionsExt::from_mode(0o750)).unwrap();
        let made = home.create(&[]);
        assert!(made.id().starts_with("ses_") && made.id().len() == 20, "{}", made.id());
        assert_eq!(home.sessions.get(made.id()).unwrap(), made);
        assert_eq!(made.running_pid(), Some(std::process::id()));
        assert_eq!((mode(&home.dir()), mode(&made.upper())), (0o700, 0o750));
        assert_eq!(std::fs::read_dir(made.work()).unwrap().count(), 0);
        let second = home.create(&[]);
        let listed = home.sessions.list().unwrap();
        assert_eq!(listed.sessions.len(), 2);
        assert!(listed.sessions.contains(&made) && listed.sessions.contains(&second));
        assert!(listed.sessions[0].record().started >= listed.sessions[1].record().started);
    }
    a_running_session_is_not_discarded_and_an_ended_one_is => {
        let home = Home::new();
        let mut session = home.create(&[]);
        let error = home.sessions.discard(session.id()).unwrap_err();
        assert!(matches!(error, SessionError::Running { pid, .. } if pid == std::process::id()), "{error}");
        session.end().unwrap();
        assert_eq!(home.sessions.get(session.id()).unwrap().running_pid(), None);
        // What a mount with `volatile` leaves, and what a program may.
        run_script(
            Command::new("bash").current_dir(session.work().parent().unwrap()),
            "mkdir -p work/work/incompat/volatile upper/shut/in; touch upper/shut/in/f; chmod 000 work/work upper/shut/in upper/shut",
        );
        home.sessions.discard(session.id()).unwrap();
        assert_eq!(home.names(), Vec::<String>::new());
        let error = home.sessions.discard(session.id()).unwrap_err();
        assert!(matches!(error, SessionError::NoSuch { .. }), "{error}");
    }
    a_discard_that_was_cut_short_is_finished_by_the_next => {
        let home = Home::new();
        let mut session = home.create(&[]);
        session.end().unwrap();
        std::fs::create_dir_all(home.dir().join(".trash-ses_x/a/b")).unwrap();
        home.sessions.discard(session.id()).unwrap();
        assert_eq!(home.names(), Vec::<String>::new());
    }
    one_process_at_a_time_works_on_a_session => {
        let home = Home::new();
        let mut session = home.create(&[]);
        session.end().unwrap();
        let lock = home.sessions.lock(session.id()).unwrap();
        assert!(matches!(home.sessions.discard(session.id()), Err(SessionError::Busy { .. })));
        drop(lock);
        home.sessions.discard(session.id()).unwrap();
    }
    any_path_can_be_a_project => {
        let home = Home::new();
        let project = home.root.path().join(OsStr::from_bytes(b"pro\nject \xff\\"));
        std::fs::create_dir(&project).unwrap();
        let masked = BTreeSet::from([PathBuf::from(OsStr::from_bytes(b"\xfe\n"))]);
        std::fs::write(project.join(OsStr::from_bytes(b"\xfe\n")), "s").unwrap();
        let new = NewSession { project: &project, format: Home::format(), masked: masked.clone(), written_by: None, apply_asks: None };
        let made = home.sessions.create(&new).unwrap();
        let found = home.sessions.get(made.id()).unwrap();
        assert_eq!((&found.record().project, &found.record().masked), (&project, &masked));
        found.view().unwrap();
    }
    that_a_person_approves_is_remembered_and_no_older_program_reads_over_it => {
        let home = Home::new();
        let version = |id: &str| -> u64 {
            let record = std::fs::read(home.dir().join(id).join("record.json")).unwrap();
            serde_json::from_slice::<serde_json::Value>(&record).unwrap()["version"].as_u64().unwrap()
        };
        let asks = Some("/etc/policy.toml:3".to_owned());
        let new = NewSession { project: &home.project(), format: Home::format(), masked: BTreeSet::new(), written_by: None, apply_asks: asks.clone() };
        let made = home.sessions.create(&new).unwrap();
        assert_eq!(home.sessions.get(made.id()).unwrap().record().apply_asks, asks);
        assert_eq!(version(made.id()), 2);
        let other = home.create(&[]);
        assert_eq!(home.sessions.get(other.id()).unwrap().record().apply_asks, None);
        assert_eq!(version(other.id()), 1);
    }
    a_project_around_the_sessions_is_refused => {
        let home = Home::new();
        for project in [home.root.path(), &home.dir(), Path::new("/")] {
            let new = NewSession { project, format: Home::format(), masked: BTreeSet::new(), written_by: None, apply_asks: None };
            let error = home.sessions.create(&new).unwrap_err();
            assert!(matches!(error, SessionError::InsideProject { .. }), "{project:?}: {error}");
        }
        assert_eq!(home.names(), Vec::<String>::new());
    }
    a_project_that_is_not_there_is_an_error_and_leaves_nothing => {
        let home = Home::new();
        let project = home.root.path().join("nothing");
        let new = NewSession { project: &project, format: Home::format(), masked: BTreeSet::new(), written_by: None, apply_asks: None };
        assert!(matches!(home.sessions.create(&new), Err(SessionError::Project { .. })));
        assert_eq!(home.names(), Vec::<String>::new());
    }
    another_directory_of_the_same_name_is_noticed => {
        let home = Home::new();
        let session = home.create(&[]);
        session.view().unwrap();
        std::fs::rename(home.project(), home.root.path().join("moved")).unwrap();
        std::fs::create_dir(home.project()).unwrap();
        assert!(matches!(session.view(), Err(SessionError::OtherProject { .. })));
    }
    damaged_records_do_not_hide_the_others => {
        let home = Home::new();
        let good = home.create(&[]);
        let records = [
            ("ses_0000000000000001", "{\"version\": 1}"),
            ("ses_0000000000000002", "{\"version\": 3, \"new\": 1}"),
            ("ses_0000000000000003", "not json"),
        ];
        for (id, text) in records {
            std::fs::create_dir(home.dir().join(id)).unwrap();
            std::fs::write(home.dir().join(id).join("record.json"), text).unwrap();
        }
        std::fs::create_dir(home.dir().join("ses_0000000000000004")).unwrap();
        std::fs::create_dir(home.dir().join("other")).unwrap();
        let listed = home.sessions.list().unwrap();
        assert_eq!(listed.sessions, [good]);
        assert!(matches!(
            listed.broken.iter().map(|(_, error)| error).collect::<Vec<_>>()[..],
            [
                SessionError::Damaged { .. },
                SessionError::Newer { found: 3, .. },
                SessionError::Damaged { .. },
                SessionError::Read { .. },
            ]
        ));
        for (id, _) in listed.broken {
            home.sessions.discard(&id).unwrap();
        }
        for id in ["../project", "", "ses_", "ses_000000000000000G", "ses_0000000000000001/"] {
            assert!(matches!(home.sessions.get(id), Err(SessionError::BadId { .. })), "{id:?}");
        }
    }
    what_was_never_finished_is_swept_unless_it_is_being_made => {
        let home = Home::new();
        let names = ["ses_0000000000000001", "ses_0000000000000002", "ses_0000000000000003", "other"];
        for name in names {
            std::fs::create_dir_all(home.dir().join(name).join("upper")).unwrap();
        }
        std::fs::write(home.dir().join(names[2]).join("record.json"), "damaged").unwrap();
        let lock = home.sessions.lock(names[1]).unwrap();
        let made = home.create(&[]);
        let mut left = [names[3], names[1], names[2], made.id()];
        left.sort_unstable();
        assert_eq!(home.names(), left);
        drop(lock);
        let second = home.create(&[]);
        assert!(!home.names().contains(&names[1].to_owned()));
        // What is made has no lock any more.
        assert!(home.sessions.lock(made.id()).is_ok());
        assert!(home.sessions.get(second.id()).is_ok());
    }
    a_directory_that_others_can_enter_is_refused => {
        let home = Home::new();
        std::fs::set_permissions(home.dir(), PermissionsExt::from_mode(0o755)).unwrap();
        let error = Sessions::open(&home.root.path().join("state/atoll")).unwrap_err();
        assert!(matches!(error, SessionError::NotPrivate { .. }), "{error}");
    }
    hidden_files_are_not_seen_and_their_directories_are_as_ever => {
        let home = Home::new();
        run_script(
            Command::new("bash").current_dir(home.project()),
            "echo secret > .env; mkdir -p a/b secrets; echo s > a/b/.env; echo x > a/b/x; chmod 550 a; chmod 711 a/b; \
             echo k > secrets/k; touch -d 2001-01-01 a a/b",
        );
        let session = home.create(&[".env", "a/b/.env", "secrets", "secrets/k", "not/there"]);
        let (unshare, options) = match Home::format() {
            Format::Trusted => ("-m", "redirect_dir=on"),
            Format::User => ("-rm", "userxattr"),
        };
        let mount = format!("mount -t overlay o -o lowerdir=project,upperdir=$1/upper,workdir=$1/work,{options} project; cd project");
        let script = format!(
            "{mount}; test \"$(find . | sort | tr '\\n' ' ')\" = '. ./a ./a/b ./a/b/x '; \
             test \"$(stat -c '%a %Y' a a/b | tr '\\n' ' ')\" = \"550 $(date -d 2001-01-01 +%s) 711 $(date -d 2001-01-01 +%s) \"; \
             echo y > a/b/y"
        );
        let status = Command::new("unshare")
            .args([unshare, "bash", "-euc", &script, "-"])
            .arg(session.work().parent().unwrap())
            .current_dir(home.root.path())
            .status()
            .unwrap();
        assert!(status.success());
        let changes = atoll_store::changes::read(&session.view().unwrap()).unwrap();
        let paths: Vec<_> = changes.list.iter().map(|change| change.path.as_path()).collect();
        assert_eq!(paths, [Path::new("a/b/y")]);
    }
}

#[test]
fn root_makes_sessions_for_the_owner_of_the_project() {
    if !may_as_root() {
        return;
    }
    let home = Home::new();
    std::os::unix::fs::chown(home.project(), Some(1000), Some(1001)).unwrap();
    let session = home.create(&[]);
    assert_eq!(session.record().uid, 1000);
    for path in [session.upper(), session.work()] {
        let owner = path.metadata().unwrap();
        assert_eq!((owner.uid(), owner.gid()), (1000, 1001));
    }
}
