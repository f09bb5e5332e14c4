//! Directories as tar archives, out and in, compressed where that is wanted.

use super::{STAT, stat_header};
use crate::access::Runner;
use crate::answer::Json;
use crate::app::App;
use crate::error::Failure;
use crate::extract::{Named, Query, Target};
use crate::gzip::{Gunzip, Gzip};
use crate::stream::{Next, Pulled};
use crate::upload::Upload;
use atoll_api::error::{ErrorBody, TookEffect};
use atoll_api::files::Unpacked;
use atoll_engine::inside::Download;
use axum::BoxError;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use hyper::body::{Bytes, Frame};
use std::str::FromStr;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The trailer that says how many names are not in an archive.
const LEFT_OUT: HeaderName = HeaderName::from_static("atoll-left-out");

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(read, write))
}

/// What an archive is, in a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, utoipa::ToSchema)]
#[schema(as = ArchiveFormat)]
pub(super) enum Format {
    #[schema(rename = "tar")]
    Tar,
    #[schema(rename = "tar.gz")]
    TarGz,
}

impl FromStr for Format {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tar" => Ok(Self::Tar),
            "tar.gz" => Ok(Self::TarGz),
            _ => Err("write tar or tar.gz"),
        }
    }
}

/// Read a directory as a tar archive
///
/// It holds regular files, directories and links. Pipes, sockets, devices and what may not be
/// read is left out: a client that sends `TE: trailers` is told of how many names, in the
/// trailer `atoll-left-out`. The archive is whole if and only if the body ends properly.
#[utoipa::path(
    get, path = "/v1/sandboxes/{sandbox}/files/archive", operation_id = "read_archive",
    tag = "files",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Which directory; percent-encoded byte by byte"),
        (
            "format" = Option<Format>, Query,
            description = "`tar.gz` compresses it; `Accept-Encoding: gzip` does as well",
        ),
    ),
    responses(
        (
            status = 200, body = Vec<u8>, content_type = "application/x-tar",
            description = "The archive", headers(
                ("atoll-stat" = String, description = "A `FileStat` as JSON, if not too long"),
            ),
        ),
        (
            status = 200, body = Vec<u8>, content_type = "application/gzip",
            description = "The archive, with `format=tar.gz`",
        ),
        (status = "default", body = ErrorBody, description = "There is no archive"),
    ),
    security(("key" = [])),
)]
async fn read(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    headers: HeaderMap,
    mut query: Query,
) -> Result<Response, Failure> {
    let path = query.path("path")?;
    let format = query.one::<Format>("format")?;
    query.end()?;
    let is_encoded = format.is_none() && accepts_gzip(&headers);
    let download = app.inside(id).await?.read_archive(path).await?;
    let gzip = (is_encoded || format == Some(Format::TarGz)).then(Gzip::new);
    let kind = if format == Some(Format::TarGz) { "application/gzip" } else { "application/x-tar" };
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::TRAILER, HeaderValue::from_static("atoll-left-out"));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_encoded {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if let Some(stat) = stat_header(&download.stat) {
        headers.insert(STAT, stat);
    }
    let packing = Packing { download, gzip, is_over: false };
    *response.body_mut() = Body::new(Pulled::new(packing, Packing::next));
    Ok(response)
}

/// Whether a client wants what it gets compressed (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let mut codings = values.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse::<f32>().is_ok_and(|q| q > 0.0)
    })
}

/// An archive on its way out.
struct Packing {
    download: Download,
    gzip: Option<Gzip>,
    is_over: bool,
}

impl Packing {
    async fn next(mut self) -> Next<Self, BoxError> {
        if self.is_over {
            return None;
        }
        match self.piece().await {
            Ok(Some(bytes)) => Some(Ok((Frame::data(bytes), self))),
            Ok(None) => {
                self.is_over = true;
                let left_out = HeaderValue::from(self.download.left_out());
                let trailers = HeaderMap::from_iter([(LEFT_OUT, left_out)]);
                Some(Ok((Frame::trailers(trailers), self)))
            }
            Err(error) => {
                tracing::warn!(%error, "a download breaks off");
                Some(Err(error))
            }
        }
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, BoxError> {
        loop {
            let piece = self.download.next().await?;
            let Some(gzip) = &mut self.gzip else { return Ok(piece) };
            let is_last = piece.is_none();
            let packed = match piece {
                Some(bytes) => gzip.write(bytes).await?,
                None => gzip.finish().await?,
            };
            if is_last {
                self.gzip = None;
            }
            if !packed.is_empty() {
                return Ok(Some(packed));
            }
            if is_last {
                return Ok(None);
            }
        }
    }
}

/// Unpack a tar archive into a directory
///
/// Each file is in its place when it is whole; no link is followed, and names that lead out
/// of the directory are refused. Where it fails, what came before stays unpacked.
#[utoipa::path(
    put, path = "/v1/sandboxes/{sandbox}/files/archive", operation_id = "write_archive",
    tag = "files",
    params(
        ("sandbox" = Named, Path, description = "Its id or name"),
        ("path" = String, Query, description = "Into which; percent-encoded byte by byte"),
        (
            "make_parents" = Option<bool>, Query,
            description = "Make it, and directories above it, if they are missing",
        ),
        (
            "format" = Option<Format>, Query,
            description = "`tar.gz` is compressed; so is what comes with `Content-Encoding: gzip`",
        ),
    ),
    request_body(
        content = Vec<u8>, content_type = "application/octet-stream",
        description = "The archive, whatever type the request says",
    ),
    responses(
        (status = 200, body = Unpacked, description = "It is unpacked"),
        (status = "default", body = ErrorBody, description = "Not all of it is"),
    ),
    security(("key" = [])),
)]
async fn write(
    _: Runner,
    State(app): State<Arc<App>>,
    Target(id): Target,
    mut query: Query,
    headers: HeaderMap,
    mut upload: Upload,
) -> Result<Json<Unpacked>, Failure> {
    let path = query.path("path")?;
    let make_parents = query.one("make_parents")?.unwrap_or(false);
    let format = query.one::<Format>("format")?;
    query.end()?;
    let is_packed = is_packed(format, &headers)?;
    let inside = app.inside(id).await?;
    let unpacked = if is_packed {
        let mut source = Gunzip::new(upload);
        let unpacked = inside.unpack(path, make_parents, &mut source).await;
        upload = source.into_inner();
        unpacked
    } else {
        inside.unpack(path, make_parents, &mut upload).await
    };
    match unpacked {
        Ok(unpacked) => Ok(Json(unpacked)),
        Err(error) => {
            upload.fault_took_effect(TookEffect::Unknown);
            Err(upload.failed(error))
        }
    }
}

/// Whether an archive comes compressed.
fn is_packed(format: Option<Format>, headers: &HeaderMap) -> Result<bool, Failure> {
    let encoding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    let is = |encoding: &[u8], name: &str| encoding.eq_ignore_ascii_case(name.as_bytes());
    match (encoding, format) {
        (None, format) => Ok(format == Some(Format::TarGz)),
        (Some(encoding), format) if is(encoding, "identity") => Ok(format == Some(Format::TarGz)),
        (Some(encoding), None | Some(Format::Tar)) if is(encoding, "gzip") => Ok(true),
        _ => Err(Failure::field("Content-Encoding", "an archive comes plain, or as gzip once")
            .next_step("send it with `format=tar.gz`, without Content-Encoding")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_accepts_gzip_says_so() {
        let accepts = |text: &'static str| {
            let value = HeaderValue::from_static(text);
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)]))
        };
        for text in ["gzip", "GZIP", "br, gzip", "gzip;q=0.5, br", "identity;q=0, gzip ; q=1"] {
            assert!(accepts(text), "{text}");
        }
        for text in ["", "*", "br", "gzip;q=0", "gzip;q=0.000", "x-gzip", "identity"] {
            assert!(!accepts(text), "{text}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn an_archive_is_compressed_once_at_most() {
        let packed = |encoding: Option<&'static str>, format| {
            let encoding = encoding.map(HeaderValue::from_static);
            let headers = encoding.map(|value| (header::CONTENT_ENCODING, value));
            is_packed(format, &headers.into_iter().collect()).ok()
        };
        let (tar, gz) = (Some(Format::Tar), Some(Format::TarGz));
        assert_eq!(packed(None, None), Some(false));
        assert_eq!(packed(None, gz), Some(true));
        assert_eq!(packed(Some("gzip"), None), Some(true));
        assert_eq!(packed(Some("gzip"), tar), Some(true));
        assert_eq!(packed(Some("identity"), gz), Some(true));
        assert_eq!(packed(Some("gzip"), gz), None);
        assert_eq!(packed(Some("br"), None), None);
    }
}
