use super::*;
use atoll_api::time::Timestamp;
use proptest::prelude::*;

fn kept(number: u8) -> KeptVolume {
    KeptVolume {
        id: VolumeId::from_random([number; 10]),
        name: format!("v{number}").parse().unwrap(),
        labels: BTreeMap::from([("n".to_owned(), number.to_string())]),
        created_at: Timestamp::from_unix_us(0).unwrap(),
        is_read_only: false,
        copied: None,
        limit: None,
        host_path: None,
    }
}

fn mount(number: u8, access: VolumeAccess) -> Mount {
    let KeptVolume { id, name, .. } = kept(number);
    Mount { volume: id, name, path: format!("/v{number}"), access, host_path: None }
}

fn sandbox(number: u8) -> SandboxId {
    SandboxId::from_random([number; 10])
}

fn by_name(number: u8) -> VolumeRef {
    VolumeRef::Name(kept(number).name)
}

use VolumeAccess::{ReadOnly, Shared, Writer};

#[test]
fn who_writes_alone_is_named_to_the_next_one_and_readers_come_in() {
    let mut book = Book::new(vec![kept(1), kept(2)]);
    let name: SandboxName = "web".parse().unwrap();
    book.claim(sandbox(1), Some(&name), &[mount(1, Writer)]).unwrap();
    for access in [Writer, Shared] {
        // All or nothing: the volume that could be had is not taken either.
        let wanted = [mount(2, Writer), mount(1, access)];
        let refused = book.claim(sandbox(2), None, &wanted).unwrap_err();
        let VolumeError::Held { holder, holder_name, wanted, held, .. } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((holder, holder_name.as_ref()), (sandbox(1), Some(&name)));
        assert_eq!((wanted, held), (access, Writer));
        assert_eq!(book.view(&by_name(2)).unwrap().used_by, []);
    }
    book.claim(sandbox(3), None, &[mount(1, ReadOnly)]).unwrap();
    // The one that was stopped is in nobody's way, and finds another in its own.
    book.release(sandbox(1));
    book.claim(sandbox(2), None, &[mount(1, Writer)]).unwrap();
    let refused = book.claim(sandbox(1), Some(&name), &[mount(1, Writer)]).unwrap_err();
    assert!(matches!(refused, VolumeError::Held { holder, .. } if holder == sandbox(2)));
    book.forget(sandbox(2));
    book.claim(sandbox(1), Some(&name), &[mount(1, Writer)]).unwrap();
}

#[test]
fn those_that_share_are_told_of_each_other() {
    let mut book = Book::new(vec![kept(1)]);
    book.claim(sandbox(1), None, &[mount(1, Shared)]).unwrap();
    book.claim(sandbox(3), None, &[mount(1, ReadOnly)]).unwrap();
    assert_eq!(book.shared_by(sandbox(1)), []);
    book.claim(sandbox(2), None, &[mount(1, Shared)]).unwrap();
    assert_eq!(book.shared_by(sandbox(2)), [(kept(1).id, vec![sandbox(1)])]);
    assert_eq!(book.shared_by(sandbox(3)), []);
    book.release(sandbox(1));
    assert_eq!(book.shared_by(sandbox(2)), []);
}

#[test]
fn one_that_somebody_has_is_not_deleted_though_nothing_of_it_runs() {
    let mut book = Book::new(vec![kept(1)]);
    book.claim(sandbox(1), None, &[mount(1, ReadOnly)]).unwrap();
    book.release(sandbox(1));
    let refused = book.take_out(&by_name(1)).unwrap_err();
    assert!(matches!(refused, VolumeError::InUse { by, count: 1, .. } if by == sandbox(1)));
    book.forget(sandbox(1));
    let taken = book.take_out(&by_name(1)).unwrap();
    // While it goes nobody gets it, nor its name.
    let refused = book.claim(sandbox(2), None, &[mount(1, ReadOnly)]).unwrap_err();
    assert!(matches!(refused, VolumeError::NotFound { .. }));
    assert!(matches!(book.begin(kept(1)), Err(VolumeError::NameTaken { .. })));
    book.put_back(taken.clone());
    assert_eq!(book.find(&by_name(1)), Some(&taken));
    book.take_out(&VolumeRef::Id(taken.id)).unwrap();
    book.give_up(taken.id);
    assert_eq!(book.find(&by_name(1)), None);
    book.begin(kept(1)).unwrap();
}

#[test]
fn one_that_is_being_made_is_nobodys_yet_and_lists_have_pages() {
    let mut book = Book::default();
    for number in [3, 1, 2] {
        book.begin(kept(number)).unwrap();
        assert_eq!(book.view(&by_name(number)), None);
        assert_eq!(book.finish(kept(number), None).unwrap().name, kept(number).name);
    }
    book.begin(kept(4)).unwrap();
    let list = |after: Option<&VolumeName>, labels| {
        let request = ListVolumes { labels, after: after.cloned(), page_count: None };
        let page = book.list(&request, 2);
        (page.volumes.into_iter().map(|one| one.name).collect::<Vec<_>>(), page.next)
    };
    let [one, two, three] = [1, 2, 3].map(|number| kept(number).name);
    let first = list(None, BTreeMap::new());
    assert_eq!(first, (vec![one, two.clone()], Some(two.clone())));
    assert_eq!(list(Some(&two), BTreeMap::new()), (vec![three], None));
    let labels = BTreeMap::from([("n".to_owned(), "2".to_owned())]);
    assert_eq!(list(None, labels), (vec![two], None));
}

#[test]
fn nobody_begins_to_write_to_what_is_read_as_a_whole_nor_ever_to_a_snapshot() {
    let snapshot = KeptVolume { is_read_only: true, ..kept(2) };
    let mut book = Book::new(vec![kept(1), snapshot]);
    book.claim(sandbox(1), None, &[mount(1, Shared)]).unwrap();
    book.claim(sandbox(2), None, &[mount(1, ReadOnly), mount(2, ReadOnly)]).unwrap();
    assert_eq!(book.be_quiet(kept(1).id), Some(vec![sandbox(1)]));
    let refused = book.claim(sandbox(3), None, &[mount(1, Shared)]).unwrap_err();
    assert!(matches!(refused, VolumeError::Quiet { .. }), "{refused:?}");
    book.claim(sandbox(4), None, &[mount(1, ReadOnly)]).unwrap();
    book.end_quiet(kept(1).id);
    book.claim(sandbox(3), None, &[mount(1, Shared)]).unwrap();
    for access in [Writer, Shared] {
        let refused = book.claim(sandbox(5), None, &[mount(2, access)]).unwrap_err();
        assert!(matches!(refused, VolumeError::ReadOnly { .. }), "{refused:?}");
    }
    book.forget(sandbox(2));
    book.be_quiet(kept(2).id).unwrap();
    assert!(matches!(book.take_out(&by_name(2)), Err(VolumeError::Quiet { .. })));
    assert_eq!(book.be_quiet(kept(3).id), None);
}

#[derive(Debug, Clone)]
enum Act {
    Claim(u8, Vec<(u8, VolumeAccess)>),
    Release(u8),
    Forget(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let access = prop_oneof![Just(ReadOnly), Just(Writer), Just(Shared)];
    let mounts = proptest::collection::btree_map(0_u8..3, access, 0..3);
    prop_oneof![
        (0_u8..5, mounts).prop_map(|(who, mounts)| Act::Claim(who, mounts.into_iter().collect())),
        (0_u8..5).prop_map(Act::Release),
        (0_u8..5).prop_map(Act::Forget),
    ]
}

proptest! {
    #[test]
    fn whatever_is_asked_those_that_run_go_together(acts in proptest::collection::vec(act(), 0..60)) {
        let mut book = Book::new((0..3).map(kept).collect());
        for act in acts {
            match act {
                Act::Claim(who, mounts) => {
                    let mounts: Vec<Mount> =
                        mounts.into_iter().map(|(number, access)| mount(number, access)).collect();
                    // A sandbox has the same all its life.
                    book.forget(sandbox(who));
                    let before = format!("{book:?}");
                    if book.claim(sandbox(who), None, &mounts).is_err() {
                        prop_assert_eq!(&before, &format!("{book:?}"));
                    }
                }
                Act::Release(who) => book.release(sandbox(who)),
                Act::Forget(who) => book.forget(sandbox(who)),
            }
            for entry in book.volumes.values() {
                let held: Vec<&Use> = entry.uses.values().filter(|it| it.is_held).collect();
                for (index, one) in held.iter().enumerate() {
                    for other in &held[index + 1..] {
                        prop_assert!(one.access.goes_with(other.access), "{one:?} and {other:?}");
                    }
                }
            }
        }
    }
}
