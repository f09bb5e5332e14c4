//! Whether a member can become what a request wants: pure.

use super::book::Fit;
use crate::gateway::Remembered;
use crate::records::Record;

/// Judges a member, by what it was made as, for a sandbox that is to be `wanted`.
pub(crate) fn fit(member: &Record, wanted: &Record) -> Fit {
    let has_files = |network: &Option<Remembered>| {
        network.iter().flat_map(Remembered::secret_files).count() > 0
    };
    let never = [
        (member.limits != wanted.limits, "limits"),
        (member.services != wanted.services, "services"),
        (!wanted.volumes.is_empty(), "volumes"),
        (member.network.is_some() != wanted.network.is_some(), "network"),
        (has_files(&wanted.network), "network.secrets"),
    ];
    if let Some((_, what)) = never.into_iter().find(|(is_other, _)| *is_other) {
        return Fit::Never(what);
    }
    let is_of_the_same = (&member.image, member.layer, &member.template, &member.directory)
        == (&wanted.image, wanted.layer, &wanted.template, &wanted.directory);
    if is_of_the_same { Fit::Fits } else { Fit::Stale }
}
