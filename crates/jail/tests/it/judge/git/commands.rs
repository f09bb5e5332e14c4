//! Git's commands work and leave the internals alone.

use super::{internals, with_repository};

#[test]
fn commands_work_and_leave_the_internals() {
    with_repository(|sandbox| {
        let before = internals(sandbox);
        for script in [
            "echo x >> a && git add -A && git commit -qm third",
            "git branch other && git switch -q other && git switch -q main && git branch -D other",
            "git checkout -qb feature && echo y > new && git add new && git commit -qm fourth",
            "git switch -q main && git merge -q feature",
            "git tag v1 && git tag -am two v2 && git tag -d v1",
            "git fetch -q origin && git pull -q origin main",
            "echo z >> a && git stash -q && git stash pop -q && git checkout -q a",
            "git switch -q topic && echo t > t && git add t && git commit -qm t && git rebase -q main",
            "git switch -q main && git cherry-pick topic && git revert --no-edit HEAD",
            "git gc -q && git repack -adq && git pack-refs --all && git reflog expire --all",
            "git rm -q src/b && git mv a c && git commit -qm moved && git reset -q --hard HEAD~1",
            "git bisect start HEAD HEAD~1 && git bisect reset",
            "git notes add -m note && git archive HEAD | tar t && git bundle create $B/h/x main",
            "git sparse-checkout list || true; git status && git log --oneline && git diff HEAD~1",
            "git push -q origin main",
            "git switch -q main && git clean -fdxq && git update-index --refresh",
        ] {
            sandbox.run(&format!("set -e; {script}")).succeeds().denies_nothing();
        }
        assert_eq!(internals(sandbox), before);
    });
}
