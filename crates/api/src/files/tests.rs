use super::*;
use proptest::prelude::*;

#[test]
fn a_stat_on_the_wire() {
    let stat = FileStat {
        path: Octets::new(*b"/a\xff").unwrap(),
        kind: FileKind::Link,
        bytes: 3,
        mode: Mode::from_bits(0o120_777),
        uid: 1000,
        gid: 1000,
        modified_us: 1_700_000_000_000_000,
        target: Some("b".try_into().unwrap()),
        unread: None,
    };
    let text = serde_json::to_string(&stat).unwrap();
    insta::assert_snapshot!(text, @r#"{"path":{"hex":"2f61ff"},"kind":"link","bytes":3,"mode":"0777","uid":1000,"gid":1000,"modified_us":1700000000000000,"target":"b"}"#);
    assert_eq!(serde_json::from_str::<FileStat>(&text).unwrap(), stat);
}

#[test]
fn modes_are_octal() {
    for text in ["0", "644", "0644", "7777"] {
        assert!(text.parse::<Mode>().is_ok(), "{text}");
    }
    for text in ["", "+644", "-1", "0o644", "8", "00644", " 644", "10000"] {
        assert_eq!(text.parse::<Mode>(), Err(ModeError), "{text}");
    }
    assert!(serde_json::from_str::<Mode>("420").is_err());
}

#[test]
fn how_often_is_a_number_or_any() {
    let read = |json: &str| serde_json::from_str::<Expected>(json);
    assert_eq!(read("3").unwrap(), Expected::Exactly(3));
    assert_eq!(read("\"any\"").unwrap(), Expected::Any);
    for json in ["-1", "1.5", "4294967296", "\"all\"", "null", "{}"] {
        assert!(read(json).is_err(), "{json}");
    }
    let replacement: Replacement = serde_json::from_str(r#"{"old":"a","new":""}"#).unwrap();
    assert_eq!(replacement.expected, Expected::Exactly(1));
}

#[test]
fn requests_refuse_what_they_do_not_know() {
    assert!(serde_json::from_str::<Remove>(r#"{"path":"/a"}"#).is_ok());
    assert!(serde_json::from_str::<Remove>(r#"{"path":"/a","force":true}"#).is_err());
    assert!(serde_json::from_str::<SetMode>(r#"{"path":"/a","mode":"0600","x":1}"#).is_err());
}

proptest! {
    #[test]
    fn a_mode_reads_back(bits in 0..=0o7777_u32) {
        let mode = Mode::from_bits(bits);
        prop_assert_eq!(mode.to_string().parse(), Ok(mode));
        prop_assert_eq!(mode.bits(), bits);
    }
}
