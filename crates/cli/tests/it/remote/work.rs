//! An agent's hour of work is the same after it was set aside: a repository, packages, a database that
//! was being written, and a server of pages.

use super::volumes::flags;
use super::{Served, each, objects, said};
use crate::serve::support::try_ask;
use atoll_testkit::run::Project;
use atoll_testkit::skip::is_installed;
use serde_json::json;

/// A repository with work that is not committed, and a package that another one needs.
const MAKE: &str = r#"
set -e
mkdir -p app/dep && cd app
printf 'node_modules\nrows.db*\nacked\n' > .gitignore
echo '{"name": "dep", "version": "1.0.0", "main": "main.js"}' > dep/package.json
echo 'module.exports = "from dep"' > dep/main.js
npm pack --silent ./dep > /dev/null
echo '{"name": "app", "version": "1.0.0", "dependencies": {"dep": "file:dep-1.0.0.tgz"}}' > package.json
npm install --offline --no-audit --no-fund --silent > /dev/null
git init -q . && git config user.email a@b && git config user.name a
echo one > page && git add . && git commit -qm first
echo two > page && echo new > untracked && git rm -q --cached dep/main.js
"#;

/// Rows one after the other, each of which is promised to be kept once it was written down.
const WRITE: &str = r#"
import sqlite3
base = sqlite3.connect("rows.db", isolation_level=None)
base.execute("PRAGMA journal_mode=WAL")
base.execute("PRAGMA synchronous=FULL")
base.execute("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, text TEXT)")
n = base.execute("SELECT count(*) FROM rows").fetchone()[0]
while True:
    n += 1
    base.execute("INSERT INTO rows VALUES (?, ?)", (n, "x" * 500))
    with open("acked", "w") as acked:
        acked.write(f"{n:09}")
"#;

const LOOK: &str = r#"
cd app
git status --porcelain && git log --format=%s && git diff --stat && git fsck --no-progress
rm -rf node_modules
npm ci --offline --no-audit --no-fund --silent && node -e 'console.log(require("dep"))'
python3 - <<'END'
import sqlite3
base = sqlite3.connect("rows.db")
print(base.execute("PRAGMA integrity_check").fetchone()[0])
count, last = base.execute("SELECT count(*), max(n) FROM rows").fetchone()
print(count == last, count >= int(open("acked").read() or 0), count > 0)
END
curl -sS http://127.0.0.1:8341/page
"#;

fn sh(project: &Project, sandbox: &str, script: &str) -> String {
    said(project, &["exec", sandbox, "--", "sh", "-c", script])
}

#[test]
fn work_is_the_same_after_a_snapshot_a_fork_and_an_archive() {
    if !is_installed("npm", "work-npm") {
        return;
    }
    each(|project| {
        let place = format!("file://{}", project.outside().join("store").display());
        let _served = Served::start(project, &["--archive", &place]);
        let service = json!({
            "name": "pages",
            "shell": "mkdir -p app && exec python3 -m http.server 8341 --bind 127.0.0.1 --directory app",
            "ready": {"port": 8341},
        });
        let request = json!({"name": "web", "services": [service]});
        let socket = super::socket(project);
        let made = try_ask(&socket, "POST", "/v1/sandboxes", Some(&request)).unwrap();
        assert_eq!(made.status, 201, "{:?}", made.body);
        sh(project, "web", MAKE);
        let writer = format!("cd app; nohup python3 -c '{WRITE}' >/dev/null 2>&1 &");
        sh(project, "web", &writer);
        let wait = "while [ ! -s app/acked ]; do sleep 0.05; done";
        sh(project, "web", wait);
        let first = sh(project, "web", LOOK);
        let expected = "D  dep/main.js\n M page\n?? dep/main.js\n?? untracked\nfirst\n";
        assert!(
            first.starts_with(expected) && first.contains("from dep\nok\nTrue True True\n"),
            "{first}"
        );
        assert!(first.ends_with("two\n"), "{first}");
        // While it is being written, where that can be.
        let can_pause = flags(project)["pause"].as_bool().unwrap();
        let rest = |sandbox: &str| {
            if !can_pause {
                said(project, &["stop", sandbox]);
            }
        };
        rest("web");
        let snapshot = said(project, &["snapshot", "create", "web"]).trim().to_owned();
        said(project, &["create", "later", "--snapshot", &snapshot]);
        assert_eq!(sh(project, "later", LOOK), first);
        rest("later");
        let fork = objects(project, &["fork", "later", "--json"]);
        let fork =
            fork[0]["forks"][0]["sandbox"]["id"].as_str().unwrap_or_else(|| panic!("{fork:?}"));
        assert_eq!(sh(project, fork, LOOK), first);
        // Killed in the midst of a row, and brought back from elsewhere.
        if can_pause {
            said(project, &["kill", "web"]);
        }
        said(project, &["archive", "create", "web"]);
        assert_eq!(objects(project, &["show", "web", "--json"])[0]["state"], "archived");
        said(project, &["start", "web"]);
        assert_eq!(sh(project, "web", LOOK), first);
        sh(project, "web", &writer);
        said(project, &["delete", "web", "later", fork]);
    });
}
