use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

struct Case {
    folder: tempfile::TempDir,
    secrets: Secrets,
}

fn case() -> Case {
    let folder = tempfile::tempdir().unwrap();
    let secrets = Secrets::of(folder.path().to_owned());
    Case { folder, secrets }
}

impl Case {
    fn set(&self, name: &str, value: &str) -> Was {
        self.secrets.set(&name.parse().unwrap(), &value_of(value), 7).unwrap()
    }

    fn get(&self, name: &str) -> Option<Vec<u8>> {
        let value = self.secrets.get(&name.parse().unwrap()).unwrap();
        value.map(|value| value.as_bytes().to_vec())
    }

    /// As somebody else sees them who opens them now.
    fn again(&self) -> Secrets {
        Secrets::of(self.folder.path().to_owned())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn value_of(text: &str) -> Value {
    Value::new(text.as_bytes().to_vec()).unwrap()
}

fn names(secrets: &Secrets) -> Vec<String> {
    secrets.all().unwrap().iter().map(|secret| secret.name.to_string()).collect()
}

#[test]
fn what_is_set_is_there_until_it_is_deleted() {
    let case = case();
    assert_eq!(names(&case.secrets), Vec::<String>::new());
    assert_eq!(fs::read_dir(case.folder.path()).unwrap().count(), 0, "a look makes nothing");
    assert_eq!(case.set("B", "two"), Was::New);
    assert_eq!(case.set("A", "one"), Was::New);
    assert_eq!(case.set("B", "three"), Was::Replaced);
    assert_eq!(names(&case.again()), ["A", "B"]);
    assert_eq!(case.get("B").unwrap(), b"three");
    // One that has read before sees what another has written.
    let other = case.again();
    other.delete(&"A".parse().unwrap()).unwrap();
    assert_eq!(names(&case.secrets), ["B"]);
    let missing = other.delete(&"A".parse().unwrap()).unwrap_err();
    assert!(matches!(missing, SecretError::NotFound { .. }), "{missing}");
}

#[test]
fn the_files_are_their_owners_alone_and_no_value_is_in_them() {
    let case = case();
    case.set("GITHUB", "ghp_a-value-to-look-for");
    for name in ["secrets", "secrets.key", "secrets.lock"] {
        let metadata = fs::metadata(case.path(name)).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o600, "{name}");
        let text = String::from_utf8_lossy(&fs::read(case.path(name)).unwrap()).into_owned();
        assert!(!text.contains("value-to-look-for"), "{name}: {text}");
    }
    let shown = format!("{:?} {:?}", case.secrets.all().unwrap(), case.secrets);
    assert!(shown.contains("GITHUB") && !shown.contains("value-to-look-for"), "{shown}");
    // The same value twice is not the same twice in the file.
    let first = fs::read(case.path("secrets")).unwrap();
    case.set("GITHUB", "ghp_a-value-to-look-for");
    assert_ne!(first, fs::read(case.path("secrets")).unwrap());
}

#[test]
fn a_key_or_a_file_that_others_could_read_is_refused() {
    for name in ["secrets.key", "secrets"] {
        let case = case();
        case.set("A", "one");
        let path = case.path(name);
        for mode in [0o640, 0o604, 0o620, 0o606, 0o610] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = case.again().all().unwrap_err();
            assert!(matches!(refused, SecretError::NotPrivate { .. }), "{mode:o}: {refused}");
            let refused = case.again().set(&"B".parse().unwrap(), &value_of("x"), 0).unwrap_err();
            assert!(matches!(refused, SecretError::NotPrivate { .. }), "{mode:o}: {refused}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(names(&case.again()), ["A"], "the control");
        let moved = case.path("elsewhere");
        fs::rename(&path, &moved).unwrap();
        symlink(&moved, &path).unwrap();
        let refused = case.again().all().unwrap_err();
        assert!(matches!(refused, SecretError::NotPrivate { why: "is a link", .. }), "{refused}");
        if rustix::process::geteuid().is_root() {
            fs::remove_file(&path).unwrap();
            fs::rename(&moved, &path).unwrap();
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            let refused = case.again().all().unwrap_err();
            assert!(matches!(refused, SecretError::NotPrivate { .. }), "{refused}");
        }
    }
}

#[test]
fn without_its_key_a_file_is_kept_as_it_is() {
    let case = case();
    case.set("A", "one");
    let (key_path, path) = (case.path("secrets.key"), case.path("secrets"));
    let (key, file) = (fs::read(&key_path).unwrap(), fs::read(&path).unwrap());
    let check = |is_it: fn(&SecretError) -> bool| {
        let secrets = case.again();
        let read = secrets.all().unwrap_err();
        let set = secrets.set(&"B".parse().unwrap(), &value_of("x"), 0).unwrap_err();
        let deleted = secrets.delete(&"A".parse().unwrap()).unwrap_err();
        for error in [read, set, deleted] {
            assert!(is_it(&error), "{error:?}");
        }
        assert_eq!(fs::read(&path).unwrap(), file);
    };
    let put = |bytes: &[u8]| fs::write(&key_path, bytes).unwrap();
    for cut in [0, 1, 63, 64] {
        put(&key[..cut]);
        check(|error| matches!(error, SecretError::KeyDamaged { .. }));
    }
    put(&[key.as_slice(), b"\n"].concat());
    check(|error| matches!(error, SecretError::KeyDamaged { .. }));
    let mut other = key.clone();
    other[0] = if key[0] == b'0' { b'1' } else { b'0' };
    put(&other);
    check(|error| matches!(error, SecretError::WrongKey { .. }));
    fs::remove_file(&key_path).unwrap();
    check(|error| matches!(error, SecretError::KeyMissing { .. }));
    assert!(!key_path.exists(), "no other key is made for it");
    let newer = String::from_utf8(file.clone()).unwrap().replace("\"version\":1", "\"version\":2");
    fs::remove_file(&path).unwrap();
    case.set("A", "one");
    fs::write(&path, newer).unwrap();
    let refused = case.again().all().unwrap_err();
    assert!(matches!(refused, SecretError::TooNew { found: 2, .. }), "{refused}");
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let case = case();
    case.set("A", "one");
    case.set("B.b-b_b", "another value");
    let path = case.path("secrets");
    let whole = fs::read(&path).unwrap();
    let is_refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        case.again().all().is_err()
    };
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << bit;
            assert!(is_refused(&bytes), "bit {bit} of byte {place}");
        }
        assert!(is_refused(&whole[..place]), "cut at {place}");
    }
    assert!(is_refused(&[&whole[..], b"\n"].concat()));
    assert!(!is_refused(&whole), "the control");
    // Lines that are moved or left out are noticed too, though each is whole.
    let text = String::from_utf8(whole).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for order in [[0, 2, 1, 3].as_slice(), &[0, 1, 3], &[0, 1, 1, 2, 3], &[0, 3], &[1, 2, 3]] {
        let other: String = order.iter().map(|&n| format!("{}\n", lines[n])).collect();
        assert!(is_refused(other.as_bytes()), "{order:?}");
    }
}

#[test]
fn a_write_that_fails_at_any_step_leaves_the_old_or_the_new() {
    use crate::disk::Step::*;
    for step in [Clear, Make, Write, Sync, Rename, SyncFolder] {
        let case = case();
        case.set("A", "old");
        let failed = case.secrets.change(
            &mut |at| if at == step { Err(io::Error::other("cut")) } else { Ok(()) },
            |secrets| {
                secrets[0].value = value_of("new");
                Ok(())
            },
        );
        assert!(failed.is_err());
        let is_new = step == SyncFolder;
        let expected: &[u8] = if is_new { b"new" } else { b"old" };
        assert_eq!(case.get("A").unwrap(), expected, "{step:?}");
        case.set("B", "next");
        assert_eq!(names(&case.again()), ["A", "B"], "{step:?}");
        assert!(!case.path("secrets.new").exists());
    }
}

#[test]
fn there_are_limits() {
    let case = case();
    assert!(matches!(Value::new(Vec::new()), Err(SecretError::Empty)));
    assert!(matches!(Value::new(vec![0; VALUE_BYTES_MAX + 1]), Err(SecretError::TooLarge)));
    let largest = Value::new(vec![255; VALUE_BYTES_MAX]).unwrap();
    let fill = |secrets: &mut Vec<Secret>| {
        for n in 0..ALL_BYTES_MAX / VALUE_BYTES_MAX {
            let name = format!("S{n:04}").parse().unwrap();
            secrets.push(Secret { name, created_us: 0, updated_us: 0, value: largest.clone() });
        }
        Ok(())
    };
    case.secrets.change(&mut |_| Ok(()), fill).unwrap();
    let refused = case.secrets.set(&"T".parse().unwrap(), &value_of("x"), 0);
    assert!(matches!(refused, Err(SecretError::Full)));
    assert_eq!(case.again().all().unwrap().len(), ALL_BYTES_MAX / VALUE_BYTES_MAX);
    let many = |secrets: &mut Vec<Secret>| {
        secrets.clear();
        for n in 0..=SECRETS_COUNT_MAX {
            let name = format!("S{n:04}").parse().unwrap();
            secrets.push(Secret { name, created_us: 0, updated_us: 0, value: value_of("x") });
        }
        Ok(())
    };
    let refused = case.secrets.change(&mut |_| Ok(()), many);
    assert!(matches!(refused, Err(SecretError::TooMany)));
}

#[test]
fn names_are_plain() {
    let longest = "a".repeat(NAME_BYTES_MAX);
    for text in ["A", "a.b-c_D9", "...a", longest.as_str()] {
        assert_eq!(text.parse::<SecretName>().unwrap().as_str(), text);
    }
    let too_long = "a".repeat(NAME_BYTES_MAX + 1);
    for text in ["", ".", "..", "a/b", "a b", "é", "a\n", "a\0", too_long.as_str()] {
        assert!(text.parse::<SecretName>().is_err(), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_is_a_map(
        steps in prop::collection::vec(
            ("[A-C]", prop::option::of(prop::collection::vec(any::<u8>(), 1..40))), 1..12,
        ),
    ) {
        let case = case();
        let mut model = BTreeMap::new();
        for (name, value) in steps {
            let key: SecretName = name.parse().unwrap();
            match value {
                Some(bytes) => {
                    let was = case.secrets.set(&key, &Value::new(bytes.clone()).unwrap(), 0).unwrap();
                    let is_new = model.insert(name, bytes).is_none();
                    prop_assert_eq!(was == Was::New, is_new);
                }
                None => {
                    let was_there = model.remove(&name).is_some();
                    prop_assert_eq!(case.secrets.delete(&key).is_ok(), was_there);
                }
            }
            let read = |secrets: &Secrets| -> BTreeMap<String, Vec<u8>> {
                let all = secrets.all().unwrap();
                let pair = |s: &Secret| (s.name.to_string(), s.value.as_bytes().to_vec());
                all.iter().map(pair).collect()
            };
            prop_assert_eq!(&read(&case.secrets), &model);
            prop_assert_eq!(&read(&case.again()), &model);
        }
    }
}
