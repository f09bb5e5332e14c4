//! How templates are called: a name, and where it matters a version of it.

use super::VERSION_MAX;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use std::str::FromStr;

/// Longest name of a template, in bytes.
pub const TEMPLATE_NAME_BYTES_MAX: usize = 63;

/// Why a text names no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} cannot name a template: {reason}; write 1 to {TEMPLATE_NAME_BYTES_MAX} lower-case \
     letters, digits, dashes and underscores, beginning and ending with a letter or digit"
)]
pub struct TemplateNameError {
    /// What was written, cut to a length that can be shown.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A name of a template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TemplateName(String);

impl TemplateName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TemplateName {
    type Err = TemplateNameError;

    fn from_str(text: &str) -> Result<Self, TemplateNameError> {
        match flaw(text) {
            None => Ok(Self(text.to_owned())),
            Some(reason) => Err(cannot(text, reason)),
        }
    }
}

fn cannot(text: &str, reason: &'static str) -> TemplateNameError {
    TemplateNameError { text: text.chars().take(80).collect(), reason }
}

fn flaw(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.len() > TEMPLATE_NAME_BYTES_MAX {
        return Some("it is too long");
    }
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if !text.bytes().all(|b| is_plain(b) || b == b'-' || b == b'_') {
        return Some("it has a character of another kind");
    }
    let ends = [text.bytes().next(), text.bytes().last()];
    let is_inner = |b: Option<u8>| !b.is_some_and(is_plain);
    ends.into_iter().any(is_inner).then_some("it begins or ends with a dash or an underscore")
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TemplateName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    TemplateName,
    "A name of a template.",
    Some("^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$"),
    None,
    "python-tools"
);

/// A template, or one version of it: `NAME` or `NAME@VERSION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateRef {
    /// Its name.
    pub name: TemplateName,
    /// Which version; the latest where nothing is said.
    pub version: Option<u32>,
}

impl FromStr for TemplateRef {
    type Err = TemplateNameError;

    fn from_str(text: &str) -> Result<Self, TemplateNameError> {
        let Some((name, version)) = text.split_once('@') else {
            return Ok(Self { name: text.parse()?, version: None });
        };
        let wrong = || cannot(text, "what is behind the @ is no version, as 3 is one");
        let is_plain = version.bytes().all(|b| b.is_ascii_digit()) && !version.starts_with('0');
        let version = version.parse().ok().filter(|v| is_plain && (1..=VERSION_MAX).contains(v));
        Ok(Self { name: name.parse()?, version: Some(version.ok_or_else(wrong)?) })
    }
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => write!(f, "{}", self.name),
        }
    }
}

impl Serialize for TemplateRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TemplateRef {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    TemplateRef,
    "A template, or one version of it: `NAME` or `NAME@VERSION`.",
    Some("^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?(@[1-9][0-9]{0,8})?$"),
    None,
    "python-tools@2"
);

/// Why a text is no digest of files.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no digest of files: write sha256: and 64 digits or letters a to f")]
pub struct FilesDigestError {
    /// What was written, cut to a length that can be shown.
    pub text: String,
}

/// Names files that a build copies: the SHA-256 of a tar archive of them, not compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilesDigest([u8; 32]);

impl FilesDigest {
    /// How a digest begins.
    const PREFIX: &'static str = "sha256:";

    /// The digest of these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its digits alone, which are a file's name too.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FromStr for FilesDigest {
    type Err = FilesDigestError;

    fn from_str(text: &str) -> Result<Self, FilesDigestError> {
        let bytes = text.strip_prefix(Self::PREFIX).and_then(crate::id::digits);
        bytes.map(Self).ok_or_else(|| FilesDigestError { text: text.chars().take(80).collect() })
    }
}

impl fmt::Display for FilesDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", Self::PREFIX, self.hex())
    }
}

impl Serialize for FilesDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FilesDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

crate::schema::string_schema!(
    FilesDigest,
    "Names files that a build copies: the SHA-256 of a tar archive of them, not compressed.",
    Some("^sha256:[0-9a-f]{64}$"),
    None,
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_versions() {
        for text in ["a", "web-2", "a_b", "web@1", "web@999999999"] {
            assert_eq!(text.parse::<TemplateRef>().unwrap().to_string(), text);
        }
        for text in ["", "-a", "a_", "A", "a b", "a@", "a@0", "a@01", "a@x", "a@-1", "@1", "a@1@2"]
        {
            assert!(text.parse::<TemplateRef>().is_err(), "{text}");
        }
        let long = "a".repeat(TEMPLATE_NAME_BYTES_MAX + 1);
        assert!(long.parse::<TemplateName>().is_err());
        assert!("a@1000000000".parse::<TemplateRef>().is_err());
    }

    proptest! {
        #[test]
        fn a_digest_has_one_spelling(bytes: [u8; 32]) {
            let digest = FilesDigest::from_bytes(bytes);
            prop_assert_eq!(digest.to_string().parse::<FilesDigest>(), Ok(digest));
            prop_assert!(digest.to_string().to_uppercase().parse::<FilesDigest>().is_err());
        }

        #[test]
        fn no_text_breaks_it(text in "\\PC{0,90}") {
            if let Ok(read) = text.parse::<TemplateRef>() {
                prop_assert_eq!(read.to_string(), text);
            }
        }
    }
}
