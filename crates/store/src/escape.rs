//! Paths as text, both ways and without loss.
//!
//! A path is bytes; JSON and terminals want text. Bytes that are not UTF-8,
//! control characters and the backslash become `\xNN`, everything else stays.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Writes a path as text that is safe to print and can be read back by
/// [`unescape`].
#[must_use]
pub fn escape(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for char in chunk.valid().chars() {
            if is_plain(char) {
                text.push(char);
            } else {
                let mut bytes = [0; 4];
                char.encode_utf8(&mut bytes).bytes().for_each(|byte| push_hex(&mut text, byte));
            }
        }
        chunk.invalid().iter().for_each(|byte| push_hex(&mut text, *byte));
    }
    text
}

/// Controls could drive a terminal, and so could characters that change the
/// direction of writing or show nothing.
fn is_plain(char: char) -> bool {
    let is_invisible = matches!(
        char,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !char.is_control() && !is_invisible && char != '\\'
}

fn push_hex(text: &mut String, byte: u8) {
    text.push_str(&format!("\\x{byte:02x}"));
}

/// Reads what [`escape`] wrote; nothing when it did not write this.
#[must_use]
pub fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend(plain.bytes());
        let hex = escaped.strip_prefix('x')?.get(..2)?;
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        rest = &escaped[3..];
    }
    bytes.extend(rest.bytes());
    Some(OsString::from_vec(bytes).into())
}

/// For serde's `with`.
pub(crate) mod serde_path {
    use super::{escape, unescape};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use std::path::{Path, PathBuf};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape(path))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(deserializer)?;
        unescape(&text).ok_or_else(|| D::Error::custom("a path with a bad escape"))
    }
}

/// For serde's `with`, a list of paths.
pub(crate) mod serde_paths {
    use super::{escape, unescape};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    pub(crate) fn serialize<S: Serializer>(
        paths: &BTreeSet<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| escape(path)))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<BTreeSet<PathBuf>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let paths = texts.iter().map(|text| unescape(text)).collect::<Option<_>>();
        paths.ok_or_else(|| D::Error::custom("a path with a bad escape"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;

    fn path(bytes: &[u8]) -> &Path {
        Path::new(OsStr::from_bytes(bytes))
    }

    #[test]
    fn only_what_must_be_is_escaped() {
        assert_eq!(escape(path("a b/ü \u{1f600}".as_bytes())), "a b/ü \u{1f600}");
        assert_eq!(escape(path(b"a\nb\x1b[31m\\")), r"a\x0ab\x1b[31m\x5c");
        assert_eq!(escape(path(b"\xff\xc3")), r"\xff\xc3");
        assert_eq!(escape(path("a\u{202e}b\u{9b}".as_bytes())), r"a\xe2\x80\xaeb\xc2\x9b");
    }

    #[test]
    fn other_escapes_are_refused() {
        for text in ["\\", "\\n", "\\x", "\\x1", "\\xzz", "a\\x+1", "\\xü"] {
            assert_eq!(unescape(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let text = escape(path(&bytes));
            prop_assert!(text.chars().all(is_plain) || text.contains('\\'));
            prop_assert_eq!(unescape(&text), Some(path(&bytes).to_owned()));
        }
    }
}
