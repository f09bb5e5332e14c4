//! The host goes on working while a session runs; nothing of it is lost.

use super::support::{Case, SESSION, as_root_and_user, conflict, may_as_root};
use atoll_store::apply;
use atoll_store::changes::Conflict;
use std::path::PathBuf;

macro_rules! both {
    ($($name:ident => $body:block)*) => { $(
        #[test]
        fn $name() {
            fn body() $body
            as_root_and_user(concat!("conflicts::", stringify!($name)), body);
        }
    )* };
}

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

both! {
    files_that_both_changed_are_left_alone => {
        let case = Case::new("echo a > a; echo b > b; echo c > c; echo d > d; echo l > l");
        case.in_session("echo A > a; echo B > b; rm c; chmod 600 d; ln -sf x l; echo n > n; echo o > o");
        case.on_host("echo host > a; echo host > c; echo host > d; echo host > l; echo host > n; touch .");
        let outcome = case.apply();
        assert_eq!(outcome.applied, paths(&["b", "o"]));
        let changed = ["a", "c", "d", "l", "n"].map(|path| conflict(path, Conflict::Changed));
        assert_eq!(outcome.conflicts, changed);
        case.on_host("for f in a c d l n; do test $(cat $f) = host; done; test $(cat b o | tr -d '\n') = Bo");
        // The session still has its versions.
        assert_eq!(case.listed(), ["M! a", "D! c", "M! d", "T! l", "M! n"]);
        case.on_host("test -z \"$(find . -name '.atoll*')\"");
    }
    a_modification_time_that_was_set_back_does_not_hide_a_change => {
        let case = Case::new("echo a > a; touch -d 2001-01-01 a; echo b > b");
        case.in_session("echo A > a; rm b");
        case.on_host("echo host > a; touch -d 2001-01-01 a; cp -p b b.old; echo host > b; touch -r b.old b; rm b.old");
        assert_eq!(case.listed(), ["M! a", "D! b"]);
        // Control: without the host's work there is no conflict.
        let case = Case::new("echo a > a; touch -d 2001-01-01 a; echo b > b");
        case.in_session("echo A > a; rm b");
        assert_eq!(case.listed(), ["M a", "D b"]);
    }
    an_old_file_moved_into_the_place_is_a_change => {
        let case = Case::new("echo a > a; echo other > other");
        case.in_session("echo A > a");
        case.on_host("mv other a");
        assert_eq!(case.listed(), ["M! a"]);
    }
    the_same_change_on_both_sides_is_none => {
        let case = Case::new("echo a > a; echo b > b");
        case.in_session("echo A > a; rm b; echo n > n; mkdir d; echo e > d/e");
        case.on_host("echo A > a; rm b; echo n > n; mkdir d; echo e > d/e");
        assert_eq!(case.listed(), Vec::<String>::new());
    }
    other_work_in_the_same_directory_is_no_conflict => {
        let case = Case::new("mkdir -p d/e; echo a > d/a; echo b > d/b; echo x > d/e/x; echo y > y");
        case.in_session("echo A > d/a; rm d/b; echo n > d/n; echo X > d/e/x; mv y z");
        case.on_host("echo host > d/host; echo h > h; rm h; mkdir d/e/new; echo i > d/e/new/i");
        let outcome = case.apply();
        assert_eq!(outcome.conflicts, []);
        case.on_host("test $(cat d/a d/n d/e/x d/host d/e/new/i z | tr -d '\n') = AnXhostiy; test ! -e d/b");
    }
    a_directory_that_was_exchanged_is_seen => {
        let case = Case::new("mkdir d other; echo same > d/a; echo old > other/a; echo k > other/k; echo k > d/k");
        case.in_session("echo A > d/a; rm d/k");
        case.on_host("mv d away; mv other d");
        assert_eq!(case.listed(), ["M! d/a", "D! d/k"]);
        let outcome = case.apply();
        assert_eq!(outcome.applied, paths(&[]));
        assert_eq!(case.read("d/a"), "old\n");
    }
    a_conflict_of_a_directory_stays_one => {
        let case = Case::new("mkdir d e m other; echo x > d/x; echo y > e/y; echo z > m/z; echo o > other/o; echo a > a");
        case.in_session("rm -r d; rm -r e; mkdir e; echo n > e/n; chmod 700 m; echo A > a");
        // Directories with old files in the places of those that go, and a mode.
        case.on_host("rm -r d e; cp -a other d; mv other e; touch -d 2001-01-01 d/o; chmod 711 m");
        let conflicts = case.apply().conflicts;
        assert!(conflicts.len() > 3, "{conflicts:?}");
        for _ in 0..2 {
            case.on_host("touch new; rm new");
            assert_eq!(case.apply().conflicts, conflicts);
            case.on_host("test $(cat d/o e/o | tr -d '\n') = oo; test $(stat -c %a m) = 711");
        }
    }
    files_and_directories_that_the_host_deleted => {
        let case = Case::new("mkdir d e; echo a > d/a; echo b > b; echo c > e/c");
        case.in_session("echo A > d/a; echo B > b; rm e/c");
        case.on_host("rm -r d; rm b e/c");
        assert_eq!(case.listed(), ["A! b", "A! d", "A! d/a"]);
        assert_eq!(case.apply().applied, paths(&[]));
        let outcome = case.try_apply(&[], &["d/a"]).unwrap();
        assert_eq!(outcome.applied, paths(&["d", "d/a"]));
        assert_eq!(outcome.conflicts, [conflict("b", Conflict::Gone)]);
        assert_eq!(case.read("d/a"), "A\n");
    }
    a_deleted_directory_that_the_host_works_in_stays => {
        let case = Case::new("mkdir -p d/e; echo a > d/a; echo x > d/e/x; echo y > d/e/y");
        case.in_session("rm -r d");
        case.on_host("echo host > d/e/x");
        let outcome = case.apply();
        assert_eq!(
            outcome.conflicts,
            [
                conflict("d", Conflict::Contains),
                conflict("d/e", Conflict::Contains),
                conflict("d/e/x", Conflict::Changed),
            ]
        );
        assert_eq!(outcome.applied, paths(&["d/a", "d/e/y"]));
        assert_eq!(case.read("d/e/x"), "host\n");
        // And again: what is left does not grow.
        assert_eq!(case.apply().conflicts.len(), 3);
        assert_eq!(case.read("d/e/x"), "host\n");
    }
    a_file_added_to_a_deleted_directory_stays => {
        let case = Case::new("mkdir d; echo a > d/a; mkdir f; echo x > f/x");
        case.in_session("rm -r d; rm -r f; echo f > f");
        case.on_host("echo host > d/host; echo host > f/host");
        case.apply();
        assert_eq!(case.read("d/host"), "host\n");
        assert_eq!(case.read("f/host"), "host\n");
    }
    force_keeps_the_hosts_version => {
        let case = Case::new("echo a > a; echo b > b; mkdir d; echo x > d/x; echo p > p");
        case.in_session("echo A > a; rm b; rm -r d; echo D > d; echo n > n; chmod 700 p");
        case.on_host("echo host > a; echo host > b; echo host > d/x; echo host > n; echo host > p");
        assert_eq!(case.apply().applied, paths(&[]));
        let outcome = case.try_apply(&[], &["a", "b", "d", "n", "p"]).unwrap();
        assert_eq!(outcome.conflicts, []);
        assert_eq!(outcome.kept.len(), 5);
        for path in ["a", "b", "n", "p", "d"] {
            let kept = format!("{path}.orig-{SESSION}");
            let kept = if path == "d" { format!("{kept}/x") } else { kept };
            assert_eq!(case.read(&kept), "host\n", "{path}");
        }
        assert_eq!((case.read("a"), case.read("d"), case.read("n")), ("A\n".into(), "D\n".into(), "n\n".into()));
        assert_eq!(case.read("p"), "p\n");
        assert!(!case.exists("b"));
        assert_eq!(case.listed(), Vec::<String>::new());
    }
    force_of_one_path_is_about_that_path => {
        let case = Case::new("echo a > a; echo b > b");
        case.in_session("echo A > a; echo B > b");
        case.on_host("echo host > a; echo host > b");
        let outcome = case.try_apply(&["a"], &["a"]).unwrap();
        assert_eq!(outcome.applied, paths(&["a"]));
        assert_eq!(case.read("b"), "host\n");
        case.try_apply(&[], &["c"]).unwrap_err();
    }
    hidden_files_are_left_out => {
        let mut case = Case::new("mkdir -p c/in; echo secret > .env; echo secret > c/.env; echo x > c/x; echo s > c/in/s; mkdir -p k/h; echo t > k/h/t");
        case.masked = [".env", "c/.env", "k/h"].map(PathBuf::from).into();
        case.forge("mkdir c k; mknod .env c 0 0; mknod c/.env c 0 0; mknod k/h c 0 0");
        // As whoever hides files has to: a directory made in the upper must say
        // that the lower shines through.
        case.mark_copied("c");
        case.mark_copied("k");
        case.in_session("test ! -e .env -a ! -e c/.env -a ! -e k/h; echo y > c/y; rm -r c/in");
        assert_eq!(case.listed(), ["D c/in", "D c/in/s", "A c/y"]);
        case.apply();
        case.on_host("test $(cat .env c/.env k/h/t | tr -d '\n') = secretsecrett");
    }
    hidden_files_outlive_their_directory_and_are_not_overwritten => {
        let mut case = Case::new("mkdir c d; echo secret > .env; echo secret > c/.env; echo x > c/x; echo secret > d/.env");
        case.masked = [".env", "c/.env", "d/.env"].map(PathBuf::from).into();
        case.forge("mkdir c d; mknod .env c 0 0; mknod c/.env c 0 0; mknod d/.env c 0 0");
        case.mark_copied("c");
        case.mark_copied("d");
        case.in_session("rm -r c; mkdir c; echo new > c/new; echo mine > .env; rm -r d; echo d > d");
        assert_eq!(case.listed(), ["M! .env", "A c/new", "D c/x", "T! d"]);
        let outcome = case.apply();
        assert_eq!(outcome.conflicts, [conflict(".env", Conflict::Masked), conflict("d", Conflict::Masked)]);
        case.on_host("test $(cat .env c/.env d/.env | tr -d '\n') = secretsecretsecret; test $(cat c/new) = new");
    }
    the_same_directory_made_on_both_sides => {
        let case = Case::new("echo a > a");
        case.in_session("mkdir d; echo s > d/s; echo b > d/both");
        case.on_host("mkdir d; echo h > d/h; echo host > d/both");
        let outcome = case.apply();
        assert!(outcome.conflicts.contains(&conflict("d/both", Conflict::Changed)));
        case.on_host("test $(cat d/s d/h d/both | tr -d '\n') = shhost");
    }
    a_killed_apply_is_swept_and_can_be_repeated => {
        let case = Case::new("echo a > a; mkdir d; echo x > d/x");
        case.in_session("echo A > a; rm -r d; mkdir n; echo y > n/y");
        let stage = format!(".atoll-apply-{SESSION}");
        case.on_host(&format!("mkdir -p {stage}/3/4; echo half > {stage}/1; chmod 000 {stage}/3 {stage}; mkdir .atoll-apply-other"));
        case.apply();
        case.on_host("test ! -e .atoll-apply-ses_0123456789abcdef; rmdir .atoll-apply-other; mkdir -p .atoll-apply-ses_0123456789abcdef/x");
        apply::sweep(&case.project(), SESSION).unwrap();
        case.check_is_as_seen();
    }
}

#[test]
fn the_source_of_a_move_that_the_host_changed() {
    if !may_as_root() {
        return;
    }
    let case = Case::new("mkdir a; echo x > a/x; echo y > a/y");
    case.in_session("mv a b; echo more >> b/x");
    case.on_host("echo host > a/y");
    let outcome = case.apply();
    assert_eq!(
        outcome.conflicts,
        [conflict("a", Conflict::Contains), conflict("a/y", Conflict::Changed)]
    );
    assert_eq!(case.read("a/y"), "host\n");
    let case = Case::new("mkdir a; echo x > a/x; echo y > a/y");
    case.in_session("mv a b; echo more >> b/x");
    case.on_host("mv a c");
    assert_eq!(case.listed(), ["A! b", "A! b/x"]);
}

#[test]
fn a_part_of_a_swap_can_be_applied_first() {
    if !may_as_root() {
        return;
    }
    let case = Case::new("mkdir a b; echo a > a/f; echo b > b/f; echo z > z");
    case.in_session("mv a t; mv b a; mv t b; echo Z > z");
    case.try_apply(&["a"], &[]).unwrap();
    assert_eq!((case.read("a/f"), case.read("b/f")), ("b\n".into(), "b\n".into()));
    assert_eq!(case.apply().conflicts, []);
    case.check_is_as_seen();
}
