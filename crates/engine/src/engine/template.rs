//! Asking which templates and builds there are.

use super::Engine;
use crate::templates::TemplateError;
use atoll_api::id::BuildId;
use atoll_api::template::{
    Build, BuildFiles, Builds, FilesDigest, Template, TemplateName, TemplateRef, Templates,
};
use tokio::io::AsyncRead;

impl Engine {
    /// All templates.
    pub fn templates(&self) -> Templates {
        self.shared.templates.list()
    }

    /// One template with its versions, or with the one that is asked for.
    ///
    /// # Errors
    /// If there is none.
    pub fn get_template(&self, wanted: &TemplateRef) -> Result<Template, TemplateError> {
        self.shared.templates.get(wanted)
    }

    /// A build as it is now.
    ///
    /// # Errors
    /// If there is none of that id.
    pub fn get_build(&self, id: BuildId) -> Result<Build, TemplateError> {
        self.shared.templates.build(id)
    }

    /// The builds that are remembered, the latest first.
    pub fn builds(&self, name: Option<&TemplateName>) -> Builds {
        Builds { builds: self.shared.templates.builds(name) }
    }

    /// Whether files that a build copies are here.
    pub fn build_files(&self, files: FilesDigest) -> BuildFiles {
        BuildFiles { files, present: self.shared.templates.files.has(files) }
    }

    /// Takes in files that a build is to copy: a tar archive, not compressed.
    ///
    /// # Errors
    /// If they are others than their digest says, too many, or cannot be kept.
    pub async fn take_build_files(
        &self,
        files: FilesDigest,
        source: &mut (impl AsyncRead + Unpin),
    ) -> Result<BuildFiles, TemplateError> {
        self.shared.templates.files.take(files, source).await?;
        self.shared.templates.may_be_garbage();
        Ok(BuildFiles { files, present: true })
    }
}
