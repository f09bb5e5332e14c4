//! git inside does what it does outside.

use super::{each, each_way, same_as_bare};
use atoll_testkit::run::{Project, Ran, User};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;

/// Names and dates that make every commit the same.
const IDENTITY: &str = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org \
    GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org \
    GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z; set -e; ";

#[test]
fn repositories_are_made_cloned_rebased_and_joined() {
    const SCRIPT: &str = "
        git init -q -b main up; cd up; echo one > f; git add f; git commit -qm one; cd ..
        git clone -q up down; cd down
        git remote add other ../up; git remote
        git checkout -qb topic; echo t > t; git add t; git commit -qm t
        (cd ../up; echo two >> f; git commit -qam two)
        git fetch -q; git rebase -q origin/main; git log --format='%H %s'
        echo x >> f; git stash -q; git status --porcelain; git stash pop -q; git status --porcelain
        git checkout -q f
        git worktree add -q ../tree -b side
        (cd ../tree; echo w > w; git add w; git commit -qm w; git status --porcelain)
        git worktree list | wc -l; git worktree remove ../tree
        git -c protocol.file.allow=always submodule --quiet add ../up sub; git commit -qm sub
        git submodule status; git merge -q side -m merged; git push -q origin topic
        git gc -q; git fsck --full --no-dangling; git ls-files; git status --porcelain";
    each_way(|project, flags| {
        let run = same_as_bare(project, flags, &format!("{IDENTITY}{SCRIPT}"));
        assert!(run.stdout().contains(" t\n"), "{}", run.text());
    });
}

#[test]
fn work_in_a_repository_that_was_there_before() {
    const BEFORE: &str = "
        git init -q -b main ../outside/up; cd ../outside/up
        echo one > f; git add f; git commit -qm one; git config receive.denyCurrentBranch ignore
        cd ../../project; git clone -q ../outside/up .";
    const SCRIPT: &str = "
        git status --porcelain
        echo two >> f; git commit -qam two
        git checkout -qb topic; echo t > t; git add t; git commit -qm t
        git checkout -q main; echo 3 > g; git add g; git commit -qm g
        git checkout -q topic; git rebase -q main
        echo x >> f; git stash -q; git stash pop -q; git checkout -q f
        git worktree add -q tree -b side
        (cd tree; echo w > w; git add w; git commit -qm w); git worktree remove tree
        git fetch -q origin; git push -q origin topic; git pull -q --rebase origin main
        git merge -q side -m merged; git tag -am v1 v1; git notes add -m n; git branch -q -D side
        git revert --no-edit main~1 > /dev/null; git log --format='%H %s'; git gc -q; git fsck --full --no-dangling";
    each_way(|project, flags| {
        let outside = project.outside();
        let script = format!("{IDENTITY}{SCRIPT}");
        let before = project.bare_sh(&format!("{IDENTITY}{BEFORE}"));
        assert_eq!(before.code(), Some(0), "{}", before.text());
        let mut all = vec!["--write", outside.to_str().unwrap()];
        all.extend(flags);
        let run = project.run_sh(&all, &script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(!run.stderr().contains("refused"), "{}", run.text());
        // The host finds it in order, and what was pushed too.
        for directory in [".", "../outside/up"] {
            let check = format!("cd {directory} && git status > /dev/null && git fsck --full");
            let after = project.bare_sh(&check);
            assert_eq!(after.code(), Some(0), "{}", after.text());
        }
        let pushed = project.bare_sh("git -C ../outside/up log --format=%s topic");
        assert_eq!(pushed.stdout(), "t\ng\ntwo\none\n", "{}", pushed.text());
    });
}

/// git refuses a repository whose owner is another than who asks, and lists as new
/// what it does not know: neither happens because of the sandbox.
fn has_its_own_repository(project: &Project) {
    const SCRIPT: &str = "set -e; git log --format=%s
        git status --porcelain; git -C sub status --porcelain; git checkout -q other
        git status --porcelain; git checkout -q main; git submodule status | wc -l; cd sub
        git log --format=%s; cd ..; git -c user.name=t -c user.email=t@t commit -qm in --allow-empty
        git status --porcelain; git reset -q --hard HEAD~1";
    let made = format!(
        "{IDENTITY} git init -q -b main ../outside/lib; cd ../outside/lib; echo a > a; git add a
         git commit -qm a; cd ../../project; git init -q -b main .; echo 1 > file; echo x > .env
         echo .env > .gitignore; echo .env > .atollignore; git add .
         git -c protocol.file.allow=always submodule --quiet add ../outside/lib sub
         git commit -qm one; git checkout -qb other; echo 2 > file; git commit -qam two
         git checkout -q main"
    );
    let owner = project.root().metadata().unwrap();
    let _beside = project.outside();
    let mut owners = project.bare("sh");
    if project.user == User::Root {
        owners.uid(owner.uid()).gid(owner.gid());
    }
    let made = Ran(owners.args(["-c", &made]).output().unwrap());
    assert_eq!(made.code(), Some(0), "{}", made.text());
    for mode in ["live", "review"] {
        let run = project.run_sh(&["--workspace", mode], SCRIPT);
        assert_eq!(
            (run.code(), run.stdout()),
            (Some(0), "one\n1\na\n".to_owned()),
            "{}",
            run.text()
        );
    }
}

#[test]
fn no_repository_is_somebody_elses_and_no_file_is_new_by_the_sandbox() {
    each(has_its_own_repository);
    if rustix::process::geteuid().is_root() {
        let project = Project::new(User::Root, env!("CARGO_BIN_EXE_atoll"));
        for path in [project.root(), project.outside(), project.home()] {
            User::Ordinary.give(&path);
        }
        has_its_own_repository(&project);
        // The control: root's git outside refuses it.
        let bare = project.bare_sh("git status");
        assert!(bare.stderr().contains("dubious ownership"), "{}", bare.text());
    }
}

#[test]
fn a_signature_that_cannot_be_made_is_explained() {
    each(|project| {
        let set_up = "git init -q . && git config user.name t && git config user.email t@t";
        assert_eq!(project.bare_sh(set_up).code(), Some(0));
        let mut run =
            project.atoll(&["run", "--", "git", "commit", "-S", "--allow-empty", "-m", "x"]);
        let run = Ran(run.output().unwrap());
        assert_ne!(run.code(), Some(0), "{}", run.text());
        assert!(run.stderr().contains("rule system.keys (likely)"), "{}", run.text());
        let plain = project.run_sh(&[], "git commit --allow-empty -qm x");
        assert_eq!(plain.code(), Some(0), "{}", plain.text());
    });
}

#[test]
fn a_read_only_repository_outside_can_be_cloned() {
    each(|project| {
        let outside = project.outside();
        let path = outside.to_str().unwrap();
        let make = "git init -q -b main ../outside/up; cd ../outside/up; echo one > f; chmod 600 f;\
             git add f; git commit -qm one";
        assert_eq!(project.bare_sh(&format!("{IDENTITY}{make}")).code(), Some(0));
        let script = format!("git clone -q {path}/up . && cat f; touch {path}/up/x");
        let run = project.run_sh(&["--read", path], &script);
        assert_eq!(run.stdout(), "one\n", "{}", run.text());
        assert!(!outside.join("up/x").exists());
        // Control: outside, it can be written.
        assert_eq!(project.bare_sh(&format!("touch {path}/up/x")).code(), Some(0));
    });
}
