//! Databases inside, and a server with its clients.

use super::each_way;
use atoll_testkit::run::{ORDINARY_UID, Project, User};
use atoll_testkit::skip;
use std::path::PathBuf;

#[test]
fn sqlite_keeps_its_file_in_the_project() {
    const SCRIPT: &str = "set -e; python3 - <<'END'
import sqlite3, threading
def insert(first):
    db = sqlite3.connect('test.db', timeout=20)
    for n in range(first, first + 50):
        with db: db.execute('insert into t values (?)', (n,))
db = sqlite3.connect('test.db')
db.execute('pragma journal_mode=wal'); db.execute('create table t (x int)')
threads = [threading.Thread(target=insert, args=(n,)) for n in (0, 50)]
[t.start() for t in threads]; [t.join() for t in threads]
END
sqlite3 test.db 'select count(*), sum(x) from t'; rm test.db*";
    each_way(|project, flags| {
        let run = project.run_sh(flags, SCRIPT);
        assert_eq!(run.stdout(), "100|4950\n", "{}", run.text());
    });
}

/// Where Debian puts the server's programs.
fn postgresql() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let programs = versions.flatten().map(|version| version.path().join("bin"));
    programs.filter(|programs| programs.join("initdb").exists()).max()
}

#[test]
fn postgresql_serves_its_clients() {
    let Some(programs) = postgresql() else {
        return skip::skip("work-postgresql", "postgresql is not installed");
    };
    let script = format!(
        "set -e; PATH={}:$PATH; log=/tmp/log
        initdb -D data -A trust -U me -N > $log 2>&1 || {{ cat $log; exit 1; }}
        pg_ctl -D data -o '-k /tmp -c listen_addresses=127.0.0.1 -c fsync=off' -l $log -w start \
            > /dev/null || {{ cat $log; exit 1; }}
        psql -h /tmp -U me postgres -Atqc 'create table t (x int);
            insert into t select generate_series(1, 1000); select sum(x) from t'
        psql -h 127.0.0.1 -U me postgres -Atc 'select count(*) from t'
        pg_ctl -D data -m fast -w stop > /dev/null; rm -r data",
        programs.display()
    );
    each_way(|project, flags| {
        // It does not run as root, inside as outside; root's run of somebody's
        // project is somebody's.
        if project.user == User::Root {
            own_by_ordinary(project);
        }
        let run = project.run_sh(flags, &script);
        assert_eq!(run.stdout(), "500500\n1000\n", "{}", run.text());
    });
}

fn own_by_ordinary(project: &Project) {
    std::os::unix::fs::lchown(project.root(), Some(ORDINARY_UID), Some(ORDINARY_UID)).unwrap();
}
