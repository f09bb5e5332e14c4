//! Any bytes are a policy document or are refused with a line that exists.
#![no_main]

use atoll_api::policy::{self, SecretBinding};
use atoll_egress::policy::{Action, Rule};
use atoll_egress::stand_in::Kept;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.split(|&byte| byte == b'\n').count();
    match policy::parse(bytes) {
        Ok(document) => {
            assert!(bytes.len() <= policy::MAX_DOCUMENT_BYTES);
            let network = document.network;
            // Rules are text until here, so any text may come.
            for item in network.lists().flat_map(|(_, list)| &list.items) {
                Rule::parse(&item.value, Action::Allow).ok();
            }
            if let Some(range) = &network.stand_in {
                Kept::empty(&range.value).ok();
            }
            for (_, secret) in &network.secrets {
                if let SecretBinding::Injected { used_as, .. } = &secret.value {
                    assert_eq!(used_as.to_string().parse().as_ref(), Ok(used_as));
                }
            }
        }
        Err(errors) => {
            assert!(!errors.0.is_empty(), "refused for no reason");
            for error in &errors.0 {
                let line = usize::try_from(error.line).expect("a line fits");
                assert!((1..=lines).contains(&line), "line {line} of {lines}: {error:?}");
                assert!(!error.kind.to_string().is_empty());
            }
        }
    }
});
