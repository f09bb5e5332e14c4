//! Files of a sandbox.
//!
//! All of it needs the scope `run`, also to read: what is in the files of a sandbox is its
//! user's, and a sandbox that sleeps is woken for it.

mod archive;
mod content;
mod names;
mod text;
mod watch;

use crate::app::App;
use archive::Format;
use atoll_api::files::{Changed, Existing, FileStat, Unwatched};
use axum::http::{HeaderName, HeaderValue};
use std::fmt::Write as _;
use std::sync::Arc;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;
use utoipa::{PartialSchema as _, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;

/// The header that says what is known of what is downloaded, as JSON.
const STAT: HeaderName = HeaderName::from_static("atoll-stat");

/// Longest value of that header, in bytes: clients have limits, and whoever asked knows
/// the path.
const STAT_BYTES_MAX: usize = 8 << 10;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new()
        .merge(content::routes())
        .merge(names::routes())
        .merge(text::routes())
        .merge(archive::routes())
        .merge(watch::routes())
}

/// What is in a stream or a query only, for the description.
pub(super) fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((Existing::name().into_owned(), Existing::schema()));
    schemas.push((Format::name().into_owned(), Format::schema()));
    schemas.push((Changed::name().into_owned(), Changed::schema()));
    Changed::schemas(schemas);
    schemas.push((Unwatched::name().into_owned(), Unwatched::schema()));
}

/// A stat as a header: JSON in nothing but printable ASCII. None where it is too long.
fn stat_header(stat: &FileStat) -> Option<HeaderValue> {
    let json = serde_json::to_string(stat).expect("a stat has string keys only");
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        if matches!(char, ' '..='~') {
            text.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                write!(text, "\\u{unit:04x}").unwrap_or_default();
            }
        }
    }
    (text.len() <= STAT_BYTES_MAX).then(|| text.parse().expect("it is printable ASCII"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_api::files::{FileKind, Mode};
    use atoll_api::octets::Octets;

    fn stat(path: &[u8]) -> FileStat {
        FileStat {
            path: Octets::new(path).unwrap(),
            kind: FileKind::File,
            bytes: 1,
            mode: Mode::from_bits(0o644),
            uid: 0,
            gid: 0,
            modified_us: -1,
            target: None,
            unread: None,
        }
    }

    #[test]
    fn every_name_fits_into_a_header() {
        for path in ["/a b", "/grün", "/\n\r\x7f\u{80}", "/😀", "/a\"\\"].map(str::as_bytes) {
            let header = stat_header(&stat(path)).unwrap();
            let text = header.to_str().unwrap();
            assert_eq!(serde_json::from_str::<FileStat>(text).unwrap(), stat(path), "{text}");
        }
        let bytes = stat_header(&stat(b"/\xff\x01")).unwrap();
        assert_eq!(
            serde_json::from_slice::<FileStat>(bytes.as_bytes()).unwrap(),
            stat(b"/\xff\x01")
        );
        assert_eq!(stat_header(&stat("ü".repeat(2000).as_bytes())), None);
    }
}
