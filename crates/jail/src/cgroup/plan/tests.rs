use super::*;
use crate::cgroup::layout::Kind;

const ALL: Limits = Limits { memory_bytes: Some(64 << 20), pids: Some(32), cpus: Some(1.5) };

fn show(layout: &Layout, limits: &Limits) -> String {
    let plan = plan(layout, "atoll-run-7-99", limits);
    let mut text = String::new();
    for write in &plan.writes {
        text += &format!("{write}\n");
    }
    for missing in &plan.unenforced {
        text += &format!("! {missing}\n  {}\n", missing.help);
    }
    text
}

fn place(dir: &str, available: &[Controller], enabled: &[Controller]) -> Place {
    Place {
        dir: dir.into(),
        access: Access::Writable,
        is_root: dir == "/cg",
        available: available.to_vec(),
        enabled: enabled.to_vec(),
        occupants: Occupants::Others,
    }
}

fn refused(mut place: Place) -> Place {
    place.access = Access::Refused(format!("{} is not writable", place.dir.display()));
    place
}

fn legacy(name: &str, controllers: &[Controller]) -> Legacy {
    Legacy {
        controllers: controllers.to_vec(),
        dir: format!("/cg/{name}").into(),
        access: Access::Writable,
    }
}

use Controller::{Cpu, Cpuacct, Memory, Pids};

#[test]
fn v2_scope_of_ours_steps_aside() {
    let mut own = place("/cg/user/run.scope", &[Cpu, Memory, Pids], &[]);
    own.occupants = Occupants::OnlyUs;
    let above = refused(place("/cg/user", &[Cpu, Memory, Pids], &[Cpu, Memory, Pids]));
    let layout = Layout { kind: Kind::V2, v2: vec![own, above], v1: vec![] };
    insta::assert_snapshot!(show(&layout, &ALL), @r#"
    step aside into /cg/user/run.scope/atoll-run-7-99.self
    enable +memory +pids +cpu in /cg/user/run.scope
    create /cg/user/run.scope/atoll-run-7-99 (v2)
    set memory.max = 67108864 (memory)
    set memory.swap.max = 0
    set memory.oom.group = 1
    set pids.max = 32 (pids)
    set cpu.max = 150000 100000 (cpu)
    "#);
}

#[test]
fn v2_climbs_to_a_place_that_hands_on_controllers() {
    let layout = Layout {
        kind: Kind::V2,
        v2: vec![
            place("/cg/app/term.scope", &[Memory, Pids], &[]),
            place("/cg/app", &[Memory, Pids], &[Memory, Pids]),
            refused(place("/cg", &[Cpu, Memory, Pids], &[Cpu, Memory, Pids])),
        ],
        v1: vec![],
    };
    insta::assert_snapshot!(show(&layout, &ALL), @r#"
    create /cg/app/atoll-run-7-99 (v2)
    set memory.max = 67108864 (memory)
    set memory.swap.max = 0
    set memory.oom.group = 1
    set pids.max = 32 (pids)
    ! the cpu limit is not enforced: /cg/app/term.scope is not given the cpu controller
      run `systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...` after `systemctl edit user@.service` with Delegate=cpu memory pids, or run as root; nothing stands in for it
    "#);
}

#[test]
fn v2_root_enables_controllers_at_the_top() {
    let layout = Layout {
        kind: Kind::V2,
        v2: vec![place("/cg", &[Cpu, Memory, Pids], &[Memory])],
        v1: vec![],
    };
    insta::assert_snapshot!(show(&layout, &ALL), @r#"
    enable +pids +cpu in /cg
    create /cg/atoll-run-7-99 (v2)
    set memory.max = 67108864 (memory)
    set memory.swap.max = 0
    set memory.oom.group = 1
    set pids.max = 32 (pids)
    set cpu.max = 150000 100000 (cpu)
    "#);
}

#[test]
fn v2_login_scope_of_an_ordinary_user_explains_itself() {
    let layout = Layout {
        kind: Kind::V2,
        v2: vec![
            refused(place("/cg/session.scope", &[Memory, Pids], &[])),
            refused(place("/cg", &[Cpu, Memory, Pids], &[Memory, Pids])),
        ],
        v1: vec![],
    };
    insta::assert_snapshot!(show(&layout, &ALL), @r#"
    ! the memory limit is not enforced: /cg/session.scope is not writable
      run `systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...`, or run as root; memory use is then watched, not enforced
    ! the pids limit is not enforced: /cg/session.scope is not writable
      run `systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...`, or run as root; RLIMIT_NPROC then stands in for it, except for real root
    ! the cpu limit is not enforced: /cg/session.scope is not writable
      run `systemd-run --user --scope --quiet -p Delegate=yes -- atoll run ...` after `systemctl edit user@.service` with Delegate=cpu memory pids, or run as root; nothing stands in for it
    "#);
}

#[test]
fn v1_makes_a_group_per_tree() {
    let mut pids = legacy("pids", &[Pids]);
    pids.access = Access::Refused("/cg/pids is not writable for user 1000".into());
    let layout = Layout {
        kind: Kind::V1,
        v2: vec![],
        v1: vec![legacy("cpu,cpuacct", &[Cpu, Cpuacct]), pids, legacy("memory/box", &[Memory])],
    };
    insta::assert_snapshot!(show(&layout, &ALL), @r#"
    create /cg/cpu,cpuacct/atoll-run-7-99 (v1 +cpu +cpuacct)
    set cpu.cfs_period_us = 100000 (cpu)
    set cpu.cfs_quota_us = 150000 (cpu)
    create /cg/memory/box/atoll-run-7-99 (v1 +memory)
    set memory.limit_in_bytes = 67108864 (memory)
    set memory.memsw.limit_in_bytes = 67108864
    ! the pids limit is not enforced: /cg/pids is not writable for user 1000
      run as root, or on cgroup v2; RLIMIT_NPROC then stands in for it, except for real root
    "#);
}

#[test]
fn hybrid_limits_by_v1_and_lives_by_v2() {
    let layout = Layout {
        kind: Kind::Hybrid,
        v2: vec![place("/cg/unified", &[], &[])],
        v1: vec![legacy("memory", &[Memory]), legacy("pids", &[Pids]), legacy("cpu", &[Cpu])],
    };
    insta::assert_snapshot!(show(&layout, &ALL), @r#"
    create /cg/unified/atoll-run-7-99 (v2)
    create /cg/memory/atoll-run-7-99 (v1 +memory)
    set memory.limit_in_bytes = 67108864 (memory)
    set memory.memsw.limit_in_bytes = 67108864
    create /cg/pids/atoll-run-7-99 (v1 +pids)
    set pids.max = 32 (pids)
    create /cg/cpu/atoll-run-7-99 (v1 +cpu)
    set cpu.cfs_period_us = 100000 (cpu)
    set cpu.cfs_quota_us = 150000 (cpu)
    "#);
}

#[test]
fn without_limits_only_the_lifecycle_group_is_made() {
    let layout = Layout {
        kind: Kind::Hybrid,
        v2: vec![place("/cg/unified", &[], &[])],
        v1: vec![legacy("memory", &[Memory])],
    };
    insta::assert_snapshot!(show(&layout, &Limits::default()), @"create /cg/unified/atoll-run-7-99 (v2)");
}

#[test]
fn no_cgroups_enforce_nothing_and_say_so() {
    let layout = Layout { kind: Kind::None, v2: vec![], v1: vec![] };
    insta::assert_snapshot!(show(&layout, &ALL), @r#"
    ! the memory limit is not enforced: no cgroup tree with the memory controller is mounted
      mount cgroup2 at /sys/fs/cgroup; memory use is then watched, not enforced
    ! the pids limit is not enforced: no cgroup tree with the pids controller is mounted
      mount cgroup2 at /sys/fs/cgroup; RLIMIT_NPROC then stands in for it, except for real root
    ! the cpu limit is not enforced: no cgroup tree with the cpu controller is mounted
      mount cgroup2 at /sys/fs/cgroup; nothing stands in for it
    "#);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let bad = |limits: Limits| limits.check().unwrap_err().to_string();
    let none = Limits::default();
    assert!(bad(Limits { memory_bytes: Some(0), ..none }).contains("too small"));
    assert!(bad(Limits { pids: Some(0), ..none }).contains("0 processes"));
    for cpus in [0.0, 0.009, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(bad(Limits { cpus: Some(cpus), ..none }).contains("out of range"), "{cpus}");
    }
    for cpus in [0.01, 1.0, 100_000.0] {
        assert_eq!(Limits { cpus: Some(cpus), ..none }.check(), Ok(()), "{cpus}");
    }
    assert_eq!(ALL.check(), Ok(()));
}

#[test]
fn the_least_cpu_limit_is_one_that_the_kernel_takes() {
    assert_eq!(quota_us(&Limits { cpus: Some(0.01), ..Limits::default() }), CPU_QUOTA_US_MIN);
    assert_eq!(quota_us(&Limits { cpus: Some(1.5), ..Limits::default() }), 150_000);
}
