//! Ports that can be reached from outside, as they are kept.

use atoll_api::ports::{EXPOSURES_COUNT_MAX, PreviewToken, Visibility};
use atoll_api::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The exposed ports of one sandbox.
pub type Exposures = BTreeMap<u16, Exposure>;

/// A port that is exposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exposure {
    /// To whom.
    pub visibility: Visibility,
    /// What opens it, if it is private. Kept as it is, since it is shown again; the file is
    /// its owner's only.
    #[serde(default)]
    pub token: Option<PreviewToken>,
    /// When it ends by itself.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

impl Exposure {
    /// Whether it still holds.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }
}

/// What is wanted for a port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) port: u16,
    pub(crate) visibility: Visibility,
    pub(crate) expires_at: Option<Timestamp>,
    /// For one that is private now and was not before.
    pub(crate) token: PreviewToken,
}

/// What is exposed once `wanted` is; none if that is too much.
///
/// One that is there keeps its token, so that who asks twice breaks no address.
pub(crate) fn with(before: &Exposures, wanted: &Wanted, now: Timestamp) -> Option<Exposures> {
    let holds = |(_, exposure): &(&u16, &Exposure)| exposure.holds_at(now);
    let mut after: Exposures =
        before.iter().filter(holds).map(|(port, exposure)| (*port, exposure.clone())).collect();
    let token = match wanted.visibility {
        Visibility::Public => None,
        Visibility::Private => {
            let kept = after.get(&wanted.port).and_then(|exposure| exposure.token);
            Some(kept.unwrap_or(wanted.token))
        }
    };
    let exposure = Exposure { visibility: wanted.visibility, token, expires_at: wanted.expires_at };
    after.insert(wanted.port, exposure);
    (after.len() <= EXPOSURES_COUNT_MAX).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn wanted(port: u16, visibility: Visibility, token: u8) -> Wanted {
        let token = PreviewToken::from_random([token; 16]);
        Wanted { port, visibility, expires_at: None, token }
    }

    #[test]
    fn who_exposes_twice_breaks_no_address_and_who_goes_public_keeps_no_token() {
        let first = with(&Exposures::new(), &wanted(80, Visibility::Private, 1), NOW).unwrap();
        let again = with(&first, &wanted(80, Visibility::Private, 2), NOW).unwrap();
        assert_eq!(first, again);
        let public = with(&again, &wanted(80, Visibility::Public, 3), NOW).unwrap();
        assert_eq!(public[&80].token, None);
        let private = with(&public, &wanted(80, Visibility::Private, 4), NOW).unwrap();
        assert_eq!(private[&80].token, Some(PreviewToken::from_random([4; 16])));
    }

    #[test]
    fn what_has_expired_makes_room_and_its_token_opens_nothing_again() {
        let later = NOW.after(Duration::from_secs(1));
        let mut short = wanted(1, Visibility::Private, 1);
        short.expires_at = Some(later);
        let mut all = with(&Exposures::new(), &short, NOW).unwrap();
        for port in 2..=64 {
            all = with(&all, &wanted(port, Visibility::Private, 1), NOW).unwrap();
        }
        assert!(with(&all, &wanted(65, Visibility::Private, 1), NOW).is_none());
        assert!(with(&all, &wanted(64, Visibility::Public, 1), NOW).is_some());
        let renewed = with(&all, &wanted(1, Visibility::Private, 2), later).unwrap();
        assert_eq!(renewed[&1].token, Some(PreviewToken::from_random([2; 16])));
        assert!(with(&all, &wanted(65, Visibility::Private, 1), later).is_some());
    }
}
