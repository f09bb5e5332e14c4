//! The ids of services' execs: each says of which service it is, and which attempt.

use atoll_api::id::{ExecId, ID_BYTES};
use atoll_api::service::Service;
use sha2::{Digest as _, Sha256};

/// How the bytes of such an id begin. Other ids begin so once in four billion times, and then
/// have to meet a service of their sandbox as well.
const TAG: [u8; 4] = *b"serv";
const NAME_BYTES: usize = 3;

/// The id of a service's attempt; attempts are counted from the start of its sandbox.
pub(crate) fn id(name: &str, attempt: u32) -> ExecId {
    let mut bytes = [0; ID_BYTES];
    let (tag, rest) = bytes.split_at_mut(TAG.len());
    let (of, number) = rest.split_at_mut(NAME_BYTES);
    tag.copy_from_slice(&TAG);
    of.copy_from_slice(&Sha256::digest(name)[..NAME_BYTES]);
    number.copy_from_slice(&attempt.to_be_bytes()[1..]);
    ExecId::from_random(bytes)
}

/// The attempt that an id is of, if it is one of this service.
pub(super) fn attempt(name: &str, id: ExecId) -> Option<u32> {
    let first = self::id(name, 0).to_string();
    let digits = id.to_string();
    let number = digits.strip_prefix(&first[..first.len() - 6])?;
    u32::from_str_radix(number, 16).ok()
}

/// Whether an exec may be one of a service.
pub(crate) fn is_service(id: ExecId) -> bool {
    id.to_string().starts_with(&self::id("", 0).to_string()[..ExecId::PREFIX.len() + 2 * TAG.len()])
}

/// The service that an exec is of, if it is of one.
pub(crate) fn service_of(declared: &[Service], id: ExecId) -> Option<&Service> {
    declared.iter().find(|service| attempt(&service.name, id).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_of_which_attempt_it_is() {
        for number in [0, 1, 255, 256, 0x00ff_ffff] {
            assert_eq!(attempt("web", id("web", number)), Some(number));
            assert_eq!(attempt("db", id("web", number)), None);
        }
        assert_eq!(attempt("web", ExecId::from_random([7; 10])), None);
    }
}
