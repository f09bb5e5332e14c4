//! Repositories in a live project: work goes on, and nothing that the host's git
//! runs or obeys changes.

use super::each;
use atoll_testkit::picture::{Picture, picture};
use atoll_testkit::run::{Project, Ran};
use std::path::Path;

const IDENTITY: &str = "git config --global user.name t; git config --global user.email t@t; \
    git config --global init.defaultBranch main;";

/// A repository with two branches that can be rebased.
const REPOSITORY: &str = "set -e; git init -q -b main .; git config user.name t; \
    git config user.email t@t; echo a > a; git add a; git commit -qm a; git switch -qc topic; \
    echo t > t; git add t; git commit -qm t; git switch -q main; echo b > b; git add b; \
    git commit -qm b";

#[track_caller]
fn succeeds(ran: Ran) -> Ran {
    assert_eq!(ran.code(), Some(0), "{}", ran.text());
    ran
}

fn with_repository(test: impl Fn(&Project)) {
    each(|project| {
        succeeds(project.bare_sh(REPOSITORY));
        test(project);
    });
}

/// What git on the host runs and obeys.
fn internals(git: &Path) -> (Picture, Vec<u8>) {
    (picture(&git.join("hooks")), std::fs::read(git.join("config")).unwrap())
}

#[test]
fn everyday_work_goes_on_and_leaves_hooks_and_config_as_they_were() {
    with_repository(|project| {
        let git = project.root().join(".git");
        let before = internals(&git);
        let script = "set -e; echo c > c; git add c; git commit -qm c; git switch -q topic; \
            git rebase -q main; git log --format=%s; echo x >> a; git stash -q; git stash pop -q; \
            git checkout -q -- a; git branch other; git tag one; git gc -q; git merge -q main; \
            git worktree add -q wt other; git worktree remove wt; git fsck --no-progress >/dev/null; \
            git status --porcelain";
        let run = succeeds(project.run_sh(&[], script));
        assert_eq!(run.stdout(), "t\nc\nb\na\n", "{}", run.text());
        assert_eq!(run.stderr(), "", "nothing is refused");
        assert_eq!(internals(&git), before);
        succeeds(project.bare_sh("git fsck --no-progress && git status"));
    });
}

#[test]
fn commits_are_by_the_user_and_other_settings_stay_outside() {
    each(|project| {
        let set_up = "git config --global user.name 'Ada \"L\" B'; git config --global user.email a@x; \
            git config --global core.pager evil; git init -q .";
        succeeds(project.bare_sh(set_up));
        for mode in ["live", "review"] {
            let script = "git commit -q --allow-empty -m x && git log -1 --format='%an %ae %cn'; \
                git config core.pager; git config --global core.pager inside && git config core.pager";
            let run = succeeds(project.run_sh(&["--workspace", mode], script));
            assert_eq!(run.stdout(), "Ada \"L\" B a@x Ada \"L\" B\ninside\n", "{}", run.text());
        }
        assert_eq!(project.bare_sh("git config core.pager").stdout(), "evil\n", "the control");
    });
}

#[test]
fn harmless_settings_are_written_as_git_would() {
    with_repository(|project| {
        let _made = project.outside();
        succeeds(project.bare_sh("cp -a .git ../outside/git"));
        let script = "set -e; git remote add origin https://example.com/x.git; \
            git branch -q --track tracked main; git config user.name u; git remote rename origin up";
        succeeds(project.run_sh(&[], script));
        let inside = project.read(".git/config");
        succeeds(project.bare_sh(&format!(
            "git --git-dir ../outside/git config -l; {}",
            "rm -rf .git; cp -a ../outside/git .git; ".to_owned() + script
        )));
        assert_eq!(inside, project.read(".git/config"));
    });
}

#[test]
fn clones_and_new_repositories_work_and_run_nothing_on_the_host() {
    each(|project| {
        succeeds(project.bare_sh(&format!("{IDENTITY} mkdir src; cd src; {REPOSITORY}")));
        let script = r#"set -e
            export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
            git clone -q src copy; cd copy; echo x > x; git add x; git commit -qm x; git push -qf origin HEAD:new; cd ..
            git init -q born; cd born; echo x > x; git add x; git commit -qm x; git remote add o ../src; git fetch -q o
            for setting in 'core.fsmonitor touch ../pwned; false' 'core.sshCommand touch ../pwned' \
                'core.pager touch ../pwned' 'alias.status !touch ../pwned' 'include.path ../evil' 'core.hooksPath ../evil'; do
                git config ${setting%% *} "${setting#* }" 2>/dev/null && echo "set $setting"
            done
            (echo 'touch ../pwned' > .git/hooks/post-checkout) 2>/dev/null && echo hook
            for sample in .git/hooks/*.sample; do mv "$sample" "${sample%.sample}" 2>/dev/null && echo hook; done
            true"#;
        let run = succeeds(project.run_sh(&[], script));
        assert_eq!(run.stdout(), "", "{}", run.text());
        assert!(run.stderr().contains("atoll: new repositories: "), "{}", run.text());
        for name in ["copy/.git", "born/.git"] {
            assert!(run.stderr().contains(name), "{name}: {}", run.text());
        }
        let host = project.bare_sh("set -e; cd born; git status; git checkout -q -b other; \
            git log -1 --format=%s; git fsck --no-progress; cd ../copy; git status; git checkout -q origin/new -- x");
        succeeds(host);
        assert!(!project.root().join("pwned").exists());
        // The control: made without the sandbox, the same settings run.
        let bare = project.bare_sh(&format!(
            "rm -rf copy born; {script}; cd ../copy 2>/dev/null; \
            cd $OLDPWD; git status; true"
        ));
        assert!(bare.stdout().contains("set core.fsmonitor"), "{}", bare.text());
        assert!(project.root().join("pwned").exists());
    });
}

#[test]
fn a_repository_born_in_a_subdirectory_leaves_its_parent_working() {
    with_repository(|project| {
        succeeds(project.bare_sh("mkdir -p sub"));
        let script = "cd sub; git init -q .; git config core.fsmonitor 'touch pwned'; \
            echo 'touch pwned' > .git/hooks/post-index-change; git -C .. status --porcelain";
        let run = succeeds(project.run_sh(&[], script));
        assert_eq!(run.stdout(), "?? sub/\n");
        assert_eq!(project.bare_sh("git status --porcelain").stdout(), "?? sub/\n");
        succeeds(project.bare_sh("cd sub && git status"));
        assert!(!project.root().join("sub/pwned").exists());
    });
}

/// Ways to give git on the host something to run, with `$G` the git directory.
const WAYS: &[&str] = &[
    "echo x > $G/hooks/pre-commit",
    "touch x && mv x $G/hooks/post-checkout",
    "chmod +x $G/hooks/pre-commit.sample && mv $G/hooks/pre-commit.sample $G/hooks/pre-commit",
    "mv $G/hooks $G/h && mkdir $G/hooks && echo x > $G/hooks/pre-commit",
    "mv $G g && mkdir -p $G/hooks && echo x > $G/hooks/pre-commit",
    "rm -rf $G/hooks && mkdir -p evil && ln -s ../evil $G/hooks",
    "git --git-dir $G config core.fsmonitor x",
    "git --git-dir $G config core.sshCommand x",
    "git --git-dir $G config diff.external x",
    "git --git-dir $G config filter.f.clean x",
    "git --git-dir $G config core.pager x",
    "git --git-dir $G config include.path x",
    "git --git-dir $G config core.hooksPath x",
    "git --git-dir $G config alias.st '!x'",
    "echo '[core] pager = x' >> $G/config",
    "ln $G/config c && echo '[core] pager = x' >> c",
    "echo '[core] pager = x' > $G/config.worktree",
    "mkdir -p $G/info && echo '* filter=f' > $G/info/attributes",
    "mkdir -p $G/modules/m && echo '[core] pager = x' > $G/modules/m/config",
    "mkdir -p $G/modules/m/hooks && echo x > $G/modules/m/hooks/pre-commit",
];

#[test]
fn no_way_to_make_the_hosts_git_run_something_is_open_at_any_depth() {
    const DEEP: &str = "vendor/one/two/three/four";
    each(|project| {
        let set_up = format!("{IDENTITY} {REPOSITORY}; mkdir -p {DEEP}; cd {DEEP}; {REPOSITORY}");
        succeeds(project.bare_sh(&set_up));
        let saved = project.outside().join("saved");
        succeeds(project.bare_sh(&format!("cp -a . {}", saved.display())));
        for git in [".git".to_owned(), format!("{DEEP}/.git")] {
            let before = picture(&project.root().join(&git));
            let ways: String = WAYS
                .iter()
                .enumerate()
                .map(|(number, way)| format!("({way}) 2>/dev/null && echo \"done: {number}\"\n"))
                .collect();
            let run = project.run_sh(&[], &format!("G={git}\n{ways}\nrm -rf x c evil; true"));
            assert_eq!(run.stdout(), "", "{}", run.text());
            let mut after = picture(&project.root().join(&git));
            after.retain(|path, _| !path.starts_with("modules"));
            assert_eq!(after, before, "{}", run.text());
            succeeds(project.bare_sh("git status"));
        }
        for way in WAYS {
            let script = format!(
                "rm -rf ../project/* ../project/.git; cp -a {}/. .; G={DEEP}/.git; set -e; {way}",
                saved.display()
            );
            succeeds(project.bare_sh(&script));
        }
    });
}

#[test]
fn a_renamed_parent_takes_its_rules_along() {
    each(|project| {
        succeeds(
            project
                .bare_sh(&format!("{IDENTITY} mkdir -p vendor/dep; cd vendor/dep; {REPOSITORY}")),
        );
        let hooks = picture(&project.root().join("vendor/dep/.git/hooks"));
        let run = project
            .run_sh(&[], "mv vendor v2 && mv v2/dep v2/d2 && echo x > v2/d2/.git/hooks/pre-commit");
        assert_ne!(run.code(), Some(0), "{}", run.text());
        assert!(run.stderr().contains("rule git-hooks"), "{}", run.text());
        assert_eq!(picture(&project.root().join("v2/d2/.git/hooks")), hooks);
    });
}

#[test]
fn a_linked_work_tree_commits_and_its_repository_is_guarded() {
    each(|project| {
        let (repository, tree) = (project.outside().join("repo"), project.outside().join("wt"));
        let at = repository.display();
        let set_up = format!("mkdir {at}; cd {at}; {REPOSITORY}; git worktree add -q ../wt topic");
        succeeds(project.bare_sh(&set_up));
        let state = || {
            let pointer = std::fs::read(tree.join(".git")).unwrap();
            (internals(&repository.join(".git")), pointer)
        };
        let before = state();
        let commit = "echo n > n; git add n && git commit -qm n && git branch made && \
            git log -1 --format=%s; git status --porcelain";
        let ways = format!(
            "ls {at}; (echo x > {at}/.git/hooks/post-commit) 2>/dev/null && echo hook; \
             git config core.pager x 2>/dev/null && echo config; \
             (echo x > {at}/.git/worktrees/wt/commondir) 2>/dev/null && echo commondir; \
             (echo x > .git) 2>/dev/null && echo pointer; true"
        );
        let run_in_tree = |flags: &[&str], script: &str| {
            let mut command = project.atoll(&["run"]);
            command.args(flags).args(["--", "sh", "-c", script]).current_dir(&tree);
            Ran(command.output().unwrap())
        };
        let run = succeeds(run_in_tree(&[], &format!("{commit}; {ways}")));
        assert_eq!(run.stdout(), "n\n", "{}", run.text());
        assert_eq!(state(), before);
        let log = format!("git -C {at} log -1 --format=%s made");
        assert_eq!(succeeds(project.bare_sh(&log)).stdout(), "n\n");
        // Under review the repository can be read.
        let run = run_in_tree(
            &["--workspace", "review"],
            "git log -1 --format=%s && git commit -qm x --allow-empty",
        );
        assert_eq!(run.stdout(), "n\n", "{}", run.text());
        assert_ne!(run.code(), Some(0));
        assert_eq!(succeeds(project.bare_sh(&log)).stdout(), "n\n");
        let bare = project.bare_sh(&format!("cd {}; {ways}", tree.display()));
        assert_eq!(bare.stdout(), "a\nb\nhook\nconfig\ncommondir\npointer\n", "{}", bare.text());
    });
}

#[test]
fn a_submodule_commits_and_its_repository_is_guarded() {
    each(|project| {
        let set_up = format!(
            "{IDENTITY} mkdir ../outside/lib; (cd ../outside/lib; {REPOSITORY}); {REPOSITORY}; \
            git -c protocol.file.allow=always submodule add -q $PWD/../outside/lib sub; git commit -qm sub"
        );
        let _made = project.outside();
        succeeds(project.bare_sh(&set_up));
        let git = project.root().join(".git/modules/sub");
        let before = internals(&git);
        let script = "git -c user.name=t -c user.email=t@t commit -q --allow-empty -m inside && git log -1 --format=%s; \
            (echo x > ../.git/modules/sub/hooks/post-commit) 2>/dev/null && echo hook; \
            git config core.pager x 2>/dev/null && echo config; true";
        let mut command = project.atoll(&["run", "--", "sh", "-c", script]);
        let run = succeeds(Ran(command.current_dir(project.root().join("sub")).output().unwrap()));
        assert_eq!(run.stdout(), "inside\n", "{}", run.text());
        assert_eq!(internals(&git), before);
        assert_eq!(project.bare_sh("git -C sub log -1 --format=%s").stdout(), "inside\n");
    });
}

#[test]
fn a_pointer_to_somebody_elses_repository_opens_nothing() {
    each(|project| {
        let other = project.outside().join("other");
        succeeds(project.bare_sh(&format!(
            "mkdir {0}; cd {0}; {REPOSITORY}; git worktree add -q ../wt topic",
            other.display()
        )));
        for target in ["other/.git", "other/.git/worktrees/wt"] {
            let target = project.outside().join(target);
            project.write(".git", format!("gitdir: {}\n", target.display()));
            let run = project.run_sh(&[], &format!("ls {}; git status; true", other.display()));
            assert_eq!(run.code(), Some(0), "{}", run.text());
            assert_eq!(run.stdout(), "", "{}", run.text());
        }
        // The control: on the host git would follow it.
        succeeds(project.bare_sh("git log -1"));
    });
}

/// The same by links among the files that say where a repository is.
#[test]
fn links_among_the_pointers_borrow_nobodys_repository() {
    // With `$O` the directory of a repository and its work tree, which are not the
    // project's.
    const WAYS: [&str; 6] = [
        "ln -s $O/wt/.git .git",
        "ln -s $O/other/.git .git",
        "ln -s $O/other/.git/worktrees/wt entry; echo 'gitdir: entry' > .git",
        "mkdir entry; echo ref: refs/heads/topic > entry/HEAD; echo $O/other/.git > path; \
            ln -s ../path entry/commondir; echo ../.git > entry/gitdir; echo 'gitdir: entry' > .git",
        "mkdir -p worktrees/wt; cd worktrees/wt; cp $O/other/.git/worktrees/wt/HEAD .; \
            ln -s $O/other/.git/worktrees/wt/commondir commondir; cd ../..; ln -s $O/other/.git/HEAD HEAD; \
            ln -s $O/other/.git/objects objects; ln -s $O/other/.git/refs refs; \
            echo ../../.git > worktrees/wt/gitdir; echo 'gitdir: worktrees/wt' > .git",
        "mkdir .git; echo $O/other/.git > .git/commondir; cp $O/other/.git/HEAD .git/HEAD; \
            mv .git/commondir path; ln -s ../path .git/commondir",
    ];
    each(|project| {
        let outside = project.outside();
        let other = outside.join("other");
        succeeds(project.bare_sh(&format!(
            "mkdir {0}; cd {0}; {REPOSITORY}; git worktree add -q ../wt topic",
            other.display()
        )));
        let before = internals(&other.join(".git"));
        for way in WAYS {
            let set_up = format!("find . -mindepth 1 -delete; O={}; {way}", outside.display());
            succeeds(project.bare_sh(&set_up));
            // The control: git on the host finds a commit there.
            let log = "git -c safe.directory='*' log -1 --format=%s";
            assert_ne!(succeeds(project.bare_sh(log)).stdout(), "", "{way}");
            let script = format!(
                "ls {0}; echo x > {0}/.git/hooks/pre-commit; git log -1 --format=%s; true",
                other.display()
            );
            for mode in ["live", "review"] {
                let run = project.run_sh(&["--workspace", mode], &script);
                assert_eq!(run.stdout(), "", "{way}: {}", run.text());
            }
            assert_eq!(internals(&other.join(".git")), before, "{way}");
        }
    });
}

#[test]
fn protected_names_of_another_kind_than_usual_stop_no_start() {
    each(|project| {
        for set_up in [
            "echo garbage > .git",
            "echo 'gitdir: ../missing' > .git",
            "mkdir .git",
            "ln -s missing .git",
            "ln -s .git .git",
            "mkfifo .git",
            "mkdir repo; git init -q repo; ln -s repo/.git .git",
            "git init -q .; rm -r .git/hooks; echo x > .git/hooks",
            "git init -q .; rm .git/config; mkdir .git/config",
            "git init -q .; : > .git/HEAD",
            "echo x > .vscode; mkdir .envrc .mcp.json .gitmodules",
            "chmod 000 .git 2>/dev/null; git init -q .; chmod 000 .git",
        ] {
            succeeds(
                project.bare_sh(&format!(
                    "chmod -R u+rwX .; find . -mindepth 1 -delete; {set_up}; true"
                )),
            );
            for mode in ["live", "review"] {
                let run = project.run_sh(&["--workspace", mode], "echo works > file; cat file");
                assert_eq!(run.stdout(), "works\n", "{set_up} {mode}: {}", run.text());
            }
            project.atoll(&["discard", "--yes"]).output().unwrap();
        }
    });
}

#[test]
fn files_with_the_names_of_git_internals_are_plain_files() {
    each(|project| {
        let script = "set -e; mkdir hooks info objects; echo x > HEAD; echo x > config; echo x > hooks/pre-commit; \
            chmod +x hooks/pre-commit; echo y >> config; rm HEAD; mv hooks h";
        let run = succeeds(project.run_sh(&[], script));
        assert_eq!(run.stderr(), "");
    });
    each(|project| {
        // In a bare repository they are what they are called.
        succeeds(project.bare_sh("git init -q --bare -b main ."));
        let before = internals(&project.root());
        let run = project.run_sh(&[], "(echo x > hooks/post-receive); git config core.pager x; echo x >> config; \
            git update-ref refs/heads/main $(git -c user.name=t -c user.email=t@t commit-tree -m x $(git mktree < /dev/null)); \
            git log -1 --format=%s");
        assert_eq!(run.stdout(), "x\n", "{}", run.text());
        assert_eq!(internals(&project.root()), before);
    });
}

/// A project that is no repository yet, made one by the command: what would run when
/// the user works in it does not.
#[test]
fn a_repository_born_at_the_root_runs_nothing_on_the_host() {
    let attack = format!(
        "{IDENTITY} git init -q .; echo a > a; git add a; git commit -qm a; mkdir -p .git/hooks; \
         printf '#!/bin/sh\\ntouch ran-hook\\n' > .git/hooks/post-checkout; \
         chmod +x .git/hooks/post-checkout; git config core.fsmonitor 'touch ran-monitor; false'; \
         git config alias.st '!touch ran-alias'; echo '* filter=x' > .gitattributes; \
         git config filter.x.clean 'touch ran-filter; cat'"
    );
    let work = "git status >/dev/null; git checkout -qb other; git st; git add -A; ls";
    each(|project| {
        let run = project.run_sh(&[], &attack);
        assert!(run.stderr().contains("new repositories"), "{}", run.text());
        let outside = project.bare_sh(work);
        assert!(!outside.stdout().contains("ran-"), "{}", outside.text());
        // The control: the same without a sandbox runs all of it.
        succeeds(project.bare_sh(&format!("rm -rf .git .gitattributes; {attack}")));
        let ran = project.bare_sh(work).stdout();
        for name in ["ran-alias", "ran-filter", "ran-hook", "ran-monitor"] {
            assert!(ran.contains(name), "{name}: {ran}");
        }
    });
}
