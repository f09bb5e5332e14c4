//! Templates and their builds.

use crate::body::Upload;
use crate::client::{Client, Path, json};
use crate::error::ClientError;
use crate::sse::{ServerEvent, ServerEvents};
use atoll_api::error::ErrorBody;
use atoll_api::id::BuildId;
use atoll_api::template::{
    Build, BuildFiles, BuildLogEntry, BuildTemplate, Builds, FilesDigest, Template, TemplateName,
    TemplateRef, Templates,
};
use hyper::{Method, header};
use serde::Deserialize;

/// What a build tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A line of its log.
    Line(BuildLogEntry),
    /// It has ended.
    Ended(Box<Build>),
    /// The server ends the stream, as for this reason.
    End(String),
}

/// The log of a build as it goes on.
pub struct BuildStream(ServerEvents);

impl Client {
    /// Begins to build a template.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn build_template(&self, wanted: &BuildTemplate) -> Result<Build, ClientError> {
        let request = self.request(Method::POST, &Path::of(&["builds"]));
        let (request, body) = json(request, wanted)?;
        self.receive(request, body).await.map(|(_, build)| build)
    }

    /// Lists builds, the latest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_builds(
        &self,
        template: Option<&TemplateName>,
    ) -> Result<Builds, ClientError> {
        self.ask(Method::GET, Path::of(&["builds"]).with_some("template", template)).await
    }

    /// Gives a build.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_build(&self, build: BuildId) -> Result<Build, ClientError> {
        self.ask(Method::GET, Path::of(&["builds", &build.to_string()])).await
    }

    /// Cancels a build.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn cancel_build(&self, build: BuildId) -> Result<Build, ClientError> {
        self.ask(Method::POST, Path::of(&["builds", &build.to_string(), "cancel"])).await
    }

    /// Follows the log of a build, from the line of a number on.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn follow_build(
        &self,
        build: BuildId,
        offset: u64,
    ) -> Result<BuildStream, ClientError> {
        let path = Path::of(&["builds", &build.to_string(), "logs"]).with("offset", offset);
        let request = self.request(Method::GET, &path).header(header::ACCEPT, "text/event-stream");
        let (_, download) = self.send(request, Upload::empty()).await?;
        Ok(BuildStream(ServerEvents::new(download)))
    }

    /// Tells whether files that a build copies are there.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_build_files(&self, files: FilesDigest) -> Result<BuildFiles, ClientError> {
        self.ask(Method::GET, Path::of(&["build-files", &files.to_string()])).await
    }

    /// Sends files that a build copies: a tar archive.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn send_build_files(
        &self,
        files: FilesDigest,
        archive: Upload,
    ) -> Result<BuildFiles, ClientError> {
        let path = Path::of(&["build-files", &files.to_string()]);
        let request =
            self.request(Method::PUT, &path).header(header::CONTENT_TYPE, "application/x-tar");
        self.receive(request, archive).await.map(|(_, files)| files)
    }

    /// Lists the templates.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn list_templates(&self) -> Result<Templates, ClientError> {
        self.ask(Method::GET, Path::of(&["templates"])).await
    }

    /// Gives a template with its versions, or with one of them.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn get_template(&self, template: &TemplateRef) -> Result<Template, ClientError> {
        self.ask(Method::GET, Path::of(&["templates", &template.to_string()])).await
    }

    /// Deletes a template, or a version of it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn delete_template(&self, template: &TemplateRef) -> Result<(), ClientError> {
        let path = Path::of(&["templates", &template.to_string()]);
        self.send(self.request(Method::DELETE, &path), Upload::empty()).await.map(|_| ())
    }
}

impl BuildStream {
    /// What it tells next; nothing where the stream broke off.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub async fn next(&mut self) -> Result<Option<Told>, ClientError> {
        self.0.next_told(read).await
    }
}

fn read(event: &ServerEvent) -> Result<Option<Told>, ClientError> {
    #[derive(Deserialize)]
    struct End {
        reason: String,
    }
    let told = match event.kind.as_str() {
        "log" => serde_json::from_str(&event.data).map(Told::Line),
        "build" => serde_json::from_str(&event.data).map(|build| Told::Ended(Box::new(build))),
        "error" => match serde_json::from_str::<ErrorBody>(&event.data) {
            Ok(body) => return Err(ClientError::Api(Box::new(body.error))),
            Err(error) => Err(error),
        },
        "end" => serde_json::from_str(&event.data).map(|End { reason }| Told::End(reason)),
        // Of a newer server.
        _ => return Ok(None),
    };
    told.map(Some).map_err(|error| ClientError::NotUnderstood {
        reason: format!("an event that is not as it should be: {error}"),
    })
}
