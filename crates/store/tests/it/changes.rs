//! What a session did is listed and applied exactly.

use super::support::{Case, as_root_and_user, may_as_root};

/// Runs `script` over the project that `setup` makes, expects these changes and
/// applies them.
#[track_caller]
fn check(setup: &str, script: &str, expect: &[&str]) {
    let case = Case::new(setup);
    case.in_session(script);
    assert_eq!(case.listed(), expect);
    case.check_is_untouched();
    case.check();
}

macro_rules! both {
    ($($name:ident => $body:block)*) => { $(
        #[test]
        fn $name() {
            fn body() $body
            as_root_and_user(concat!("changes::", stringify!($name)), body);
        }
    )* };
}

both! {
    nothing_done_is_nothing_changed => {
        check("echo a > a; mkdir d; echo b > d/b", "cat a d/b", &[]);
    }
    the_plain_kinds => {
        check(
            "echo a > a; echo b > b; echo c > c; ln -s a l; mkdir d; echo x > d/x",
            "echo A >> a; rm b; chmod 600 c; ln -sfn b l; echo n > d/n; ln -s ../a d/up; mkdir e; echo f > e/f",
            &["M a", "D b", "P c", "A d/n", "A d/up", "A e", "A e/f", "M l"],
        );
    }
    copies_that_are_equal_are_no_changes => {
        check(
            "echo a > a; echo b > b; mkdir d; echo c > d/c",
            "chmod 600 a; chmod 644 a; echo b > b.new; cat b > b.old; rm b.new b.old; touch -r a d/c",
            &[],
        );
    }
    a_directory_deleted_goes_with_all_in_it => {
        check(
            "mkdir -p d/e/f keep; echo x > d/e/x; ln -s x d/e/l; echo k > keep/k",
            "rm -r d",
            &["D d", "D d/e", "D d/e/f", "D d/e/l", "D d/e/x"],
        );
    }
    a_directory_deleted_and_made_anew_hides_the_old => {
        check(
            "mkdir -p d/sub; echo old > d/old; echo same > d/same; echo s > d/sub/s",
            "rm -r d; mkdir d; echo new > d/new; echo same > d/same; mkdir d/sub; echo t > d/sub/t",
            &["A d/new", "D d/old", "D d/sub/s", "A d/sub/t"],
        );
    }
    kinds_change_both_ways => {
        check(
            "echo f > f; mkdir -p d/in; echo x > d/in/x; ln -s d l; ln -s f l2; echo g > g",
            "rm f; mkdir f; echo y > f/y; rm -r d; echo d > d; rm l; mkdir l; rm l2; echo p > l2; rm g; ln -s l2 g",
            &["T d", "D d/in", "D d/in/x", "T f", "A f/y", "T g", "T l", "T l2"],
        );
    }
    files_move => {
        check(
            "echo a > a; mkdir d; echo b > d/b",
            "mv a d/a; mv d/b b; echo more >> d/a",
            &["D a", "A b", "A d/a", "D d/b"],
        );
    }
    modes_of_directories => {
        check(
            "mkdir -p d/e ro; echo x > d/x; echo y > ro/y; chmod 555 ro",
            "chmod 700 d; chmod 755 ro; echo z > ro/z; rm ro/y; chmod 555 ro; mkdir -p n/o; echo p > n/o/p; chmod 500 n/o n",
            &["P d", "A n", "A n/o", "A n/o/p", "D ro/y", "A ro/z"],
        );
    }
    modes_that_shut_the_owner_out => {
        check(
            "echo a > a; mkdir d; echo x > d/x",
            "echo b > b; chmod 000 b; echo A > a; chmod 000 a; mkdir -p s/t; echo u > s/t/u; chmod 000 s/t/u s/t s; mkdir empty; chmod 000 empty",
            &["M a", "A b", "A empty", "A s", "A s/t", "A s/t/u"],
        );
    }
    odd_names => {
        let case = Case::new(r"echo a > $'a\nb'; mkdir $'d\xff'; echo x > $'d\xff/\x01 x'");
        case.in_session(r"echo A > $'a\nb'; echo y > $'d\xff/\xfe\ny'; rm $'d\xff/\x01 x'; mkdir -- '-rf' '*' ' '; echo s > '*/\'");
        assert_eq!(case.changes().list.len(), 7);
        case.check();
    }
    links_to_one_file_stay_links => {
        check(
            "echo a > a; echo b > b; ln b b2; mkdir d",
            "echo n > n; ln n n2; ln n d/n3",
            &["A d/n3", "A n", "A n2"],
        );
    }
    a_link_is_broken_as_the_overlay_breaks_it => {
        check("echo b > b; ln b b2", "echo more >> b", &["M b"]);
        check("echo b > b; ln b b2", "chmod 600 b", &["P b"]);
    }
    a_new_name_of_an_old_file_is_a_link => {
        let case = Case::new("echo a > a; echo b > b");
        case.in_session("ln a a2; ln b b2; echo more >> b");
        assert_eq!(case.listed(), ["A a2", "M b", "A b2"]);
        case.try_apply(&["b"], &[]).unwrap();
        assert_eq!(case.apply().conflicts, []);
        assert_eq!(case.listed(), Vec::<String>::new());
        case.on_host("test a -ef a2; test b -ef b2; test \"$(cat b2)\" = \"$(printf 'b\\nmore')\"");
    }
    holes_stay_holes => {
        check(
            "truncate -s 3M old; echo x > small",
            "truncate -s 64M s; echo data | dd of=s bs=1 seek=20000000 conv=notrunc status=none; \
             echo y | dd of=old bs=1 seek=1000000 conv=notrunc status=none; truncate -s 2M small",
            &["M old", "A s", "M small"],
        );
    }
    attributes_go_along => {
        let set = "import os,sys; os.setxattr(sys.argv[1], sys.argv[2], sys.argv[3].encode())";
        let case = Case::new(&format!(
            "echo a > a; echo b > b; mkdir d; python3 -c '{set}' a user.one 1; python3 -c '{set}' b user.two 2"
        ));
        case.in_session(&format!(
            "python3 -c '{set}' a user.one 2; echo n > n; python3 -c '{set}' n user.n x; \
             python3 -c '{set}' d user.d y; mkdir e; python3 -c '{set}' e user.e z; \
             python3 -c 'import os; os.removexattr(\"b\", \"user.two\")'"
        ));
        assert_eq!(case.listed(), ["X a", "X b", "X d", "A e", "A n"]);
        case.check();
    }
    times_go_along => {
        check(
            "echo a > a",
            "echo b > a; touch -d '2001-02-03 04:05:06.789' a; mkdir -p d/e; echo x > d/e/x; \
             touch -d '1999-01-01' d/e/x; ln -s x l; touch -h -d '1998-01-01' l; touch -d '1997-01-01' d/e; touch -d '1996-01-01' d",
            &["M a", "A d", "A d/e", "A d/e/x", "A l"],
        );
    }
    git_checkout_of_another_branch => {
        let case = Case::new(
            "git init -q -b main; mkdir -p src/a src/b; for i in 1 2 3; do echo $i > src/a/$i; done; echo b > src/b/b; \
             git add .; git commit -qm one; git checkout -q -b other; git rm -q -r src/b; echo four > src/a/4; \
             echo two >> src/a/2; ln -s a src/l; git add .; git commit -qm two; git checkout -q main",
        );
        case.in_session("git checkout -q other; echo five > src/a/5; git add .; git commit -qm three; git gc -q; git stash list");
        case.check();
        case.on_host("test -z \"$(git status --porcelain)\"; test $(git rev-list --count HEAD) = 3; git fsck --strict");
    }
    a_build_and_its_cleaning => {
        check(
            "mkdir src; echo s > src/s; mkdir -p out/old; echo o > out/old/o",
            "for i in $(seq 50); do mkdir -p out/$i; echo $i > out/$i/f; done; rm -rf out; mkdir out; echo 1 > out/1",
            &["A out/1", "D out/old", "D out/old/o"],
        );
    }
    a_new_directory_moved_about => {
        check(
            "echo a > a; mkdir d",
            "mkdir -p n/o; echo p > n/o/p; mv n d/n; mv d/n/o d/n/q; cp a d/n/q/a",
            &["A d/n", "A d/n/q", "A d/n/q/a", "A d/n/q/p"],
        );
    }
    the_applied_part_can_be_chosen => {
        let case = Case::new("mkdir -p a b; echo 1 > a/1; echo 2 > b/2; echo f > f");
        case.in_session("echo x >> a/1; rm b/2; mkdir -p n/m; echo y > n/m/y; echo z > n/z; rm f; mkdir f; echo g > f/g");
        let outcome = case.try_apply(&["n/m/y", "f/g"], &[]).unwrap();
        assert_eq!(outcome.applied, ["f", "f/g", "n", "n/m", "n/m/y"].map(std::path::PathBuf::from));
        assert_eq!(outcome.left_out, 3);
        assert_eq!(case.listed(), ["M a/1", "D b/2", "A n/z"]);
        case.try_apply(&["nothing"], &[]).unwrap_err();
        assert_eq!(case.apply().conflicts, []);
        assert_eq!(case.listed(), Vec::<String>::new());
        case.on_host("test $(cat a/1 n/m/y n/z f/g | tr -d '\\n') = 1xyzg; test ! -e b/2");
    }
}

#[test]
fn directories_of_the_project_move() {
    if !may_as_root() {
        return;
    }
    check(
        "mkdir -p a/sub; echo x > a/x; echo y > a/sub/y; echo z > a/z",
        "mv a b; echo more >> b/x; rm b/z; echo n > b/sub/n",
        &[
            "D a",
            "D a/sub",
            "D a/sub/y",
            "D a/x",
            "D a/z",
            "A b",
            "A b/sub",
            "A b/sub/n",
            "A b/sub/y",
            "A b/x",
        ],
    );
}

#[test]
fn directories_that_change_places_keep_their_content() {
    if !may_as_root() {
        return;
    }
    let case = Case::new("mkdir -p a/i b; echo a > a/f; echo b > b/f; echo i > a/i/i");
    case.in_session("mv a t; mv b a; mv t b; mkdir c; mv b/i c/j; echo k > c/j/k");
    case.check();
    let case = Case::new("mkdir -p a/b/c; echo x > a/b/c/x");
    case.in_session("mv a/b/c top; mv a/b top/b; mkdir a/b; mv top a/b/again");
    case.check();
}

#[test]
fn git_mv_of_a_directory() {
    if !may_as_root() {
        return;
    }
    let case = Case::new(
        "git init -q; mkdir -p src/deep; echo a > src/a; echo b > src/deep/b; git add .; git commit -qm one",
    );
    case.in_session(
        "git mv src lib; git commit -qm two; git mv lib/deep lib/flat; echo c >> lib/flat/b",
    );
    let changes = case.changes();
    let moved = changes.list.iter().find(|change| change.renamed_from.is_some()).unwrap();
    assert_eq!(moved.path, std::path::Path::new("lib"));
    case.check();
    case.on_host("git fsck --strict; test \"$(git status --porcelain)\" = \"$(printf 'R  lib/deep/b -> lib/flat/b\\n M lib/flat/b' )\" || git status --porcelain | grep -q flat");
}

#[test]
fn owners_go_along_for_root() {
    if !may_as_root() {
        return;
    }
    let case = Case::new(
        "chown 1000:1000 .; echo a > a; chown 1000:1000 a; mkdir d; chown 1000:1000 d; echo r > r",
    );
    case.in_session(
        "setpriv --reuid 1000 --regid 1000 --clear-groups bash -c 'echo b >> a; echo c > d/c; ln -s c d/l; mkdir d/e'; chown 1000 r",
    );
    assert_eq!(case.listed(), ["M a", "A d/c", "A d/e", "A d/l", "X r"]);
    case.check();
}
