//! How long the stages of a creation took.

use serde::{Deserialize, Serialize};

/// A stage of a creation that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The request was checked and admitted.
    Accepted,
    /// Its image is there, pulled or unpacked if it was not.
    ImageReady,
    /// It is recorded, and has its place on the host.
    Allocated,
    /// Its files can be used.
    FilesystemReady,
    /// Its first process answers.
    RuntimeReady,
    /// Its workspace is there, and all of its services are ready.
    DependenciesReady,
    /// Its network can be used.
    NetworkReady,
    /// The first command in it ended.
    FirstCommandDone,
}

/// When each stage was over, in microseconds since the request; absent if it was not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Timeline {
    /// The request was checked and admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_us: Option<u64>,
    /// Its image is there, pulled or unpacked if it was not; absent if that is `host`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_ready_us: Option<u64>,
    /// It is recorded, and has its place on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated_us: Option<u64>,
    /// Its files can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem_ready_us: Option<u64>,
    /// Its first process answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_ready_us: Option<u64>,
    /// Its workspace is there, and all of its services are ready; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies_ready_us: Option<u64>,
    /// Its network can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_ready_us: Option<u64>,
    /// The first command in it ended. It is absent until somebody sees that, as who waits
    /// for the command does, and who asks for the timeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_command_done_us: Option<u64>,
}

impl Timeline {
    /// Notes that `stage` was over `at_us` microseconds after the request; the first note stays.
    pub fn mark(&mut self, stage: Stage, at_us: u64) {
        let place = match stage {
            Stage::Accepted => &mut self.accepted_us,
            Stage::ImageReady => &mut self.image_ready_us,
            Stage::Allocated => &mut self.allocated_us,
            Stage::FilesystemReady => &mut self.filesystem_ready_us,
            Stage::RuntimeReady => &mut self.runtime_ready_us,
            Stage::DependenciesReady => &mut self.dependencies_ready_us,
            Stage::NetworkReady => &mut self.network_ready_us,
            Stage::FirstCommandDone => &mut self.first_command_done_us,
        };
        place.get_or_insert(at_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_over_is_written_and_it_stays() {
        let mut timeline = Timeline::default();
        timeline.mark(Stage::Accepted, 40);
        timeline.mark(Stage::RuntimeReady, 1700);
        timeline.mark(Stage::RuntimeReady, 9000);
        assert_eq!(
            serde_json::to_string(&timeline).unwrap(),
            r#"{"accepted_us":40,"runtime_ready_us":1700}"#
        );
    }
}
