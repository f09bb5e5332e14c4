//! Files of a sandbox, streamed both ways.

use crate::body::{Download, Upload};
use crate::client::{Client, Path};
use crate::error::ClientError;
use atoll_api::files::{FileStat, Mode, SetMode, Unpacked};
use atoll_api::octets::Octets;
use hyper::{Method, header};

impl Client {
    fn files(sandbox: &str, what: &str, path: &Octets) -> Path {
        Path::sandbox(sandbox, &["files", what]).with_bytes("path", path.as_bytes())
    }

    /// Tells what is at a path; where that is a link, what it leads to.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn stat_file(&self, sandbox: &str, path: &Octets) -> Result<FileStat, ClientError> {
        self.ask(Method::GET, Self::files(sandbox, "stat", path).with("follow", true)).await
    }

    /// Reads a file. It is whole if and only if the body ends without an error.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn read_file(&self, sandbox: &str, path: &Octets) -> Result<Download, ClientError> {
        let request = self.request(Method::GET, &Self::files(sandbox, "content", path));
        self.send(request, Upload::empty()).await.map(|(_, download)| download)
    }

    /// Writes a file, which is in its place when it is whole.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn write_file(
        &self,
        sandbox: &str,
        path: &Octets,
        mode: Option<Mode>,
        content: Upload,
    ) -> Result<FileStat, ClientError> {
        let path = Self::files(sandbox, "content", path).with_some("mode", mode);
        let request = self.request(Method::PUT, &path);
        let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        self.receive(request, content).await.map(|(_, stat)| stat)
    }

    /// Sets a mode; where there is a link, of what it leads to.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn set_file_mode(
        &self,
        sandbox: &str,
        wanted: &SetMode,
    ) -> Result<FileStat, ClientError> {
        let path = Path::sandbox(sandbox, &["files", "set_mode"]);
        self.tell(Method::POST, path, wanted).await.map(|(_, stat)| stat)
    }

    /// Reads a directory as a tar archive, whose names are relative to it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn read_archive(
        &self,
        sandbox: &str,
        path: &Octets,
    ) -> Result<Download, ClientError> {
        let request = self.request(Method::GET, &Self::files(sandbox, "archive", path));
        let request = request.header(header::TE, "trailers").header(header::CONNECTION, "TE");
        self.send(request, Upload::empty()).await.map(|(_, download)| download)
    }

    /// Unpacks a tar archive into a directory, which is made if it is not there.
    ///
    /// # Errors
    /// See [`ClientError`]; what came before stays unpacked.
    pub async fn write_archive(
        &self,
        sandbox: &str,
        path: &Octets,
        archive: Upload,
    ) -> Result<Unpacked, ClientError> {
        let path = Self::files(sandbox, "archive", path).with("make_parents", true);
        let request = self.request(Method::PUT, &path);
        let request = request.header(header::CONTENT_TYPE, "application/x-tar");
        self.receive(request, archive).await.map(|(_, unpacked)| unpacked)
    }
}
