//! Any bytes are a question or none; an answer is about the question, has room, and gives
//! addresses to names that rules can tell apart alone.
#![no_main]

use atoll_egress::dns::{Names, Standing, Transport, answer};
use atoll_egress::name::Name;
use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;

/// Every other name is known.
struct Half;

impl Names for Half {
    fn address(&mut self, name: &Name) -> Result<Standing, String> {
        assert_eq!(name.as_str().parse().as_ref(), Ok(name));
        match name.as_str().len() % 2 {
            0 => Ok(Standing { address: Ipv4Addr::new(11, 0, 0, 1), seconds: 60 }),
            _ => Err(format!("no rule allows {name}")),
        }
    }

    fn name(&self, address: Ipv4Addr) -> Option<Name> {
        address.octets().starts_with(&[11]).then(|| "known.example".parse().unwrap())
    }
}

fuzz_target!(|bytes: &[u8]| {
    for (transport, room) in [(Transport::Udp, 1232), (Transport::Tcp, usize::from(u16::MAX))] {
        if let Some(sent) = answer(bytes, transport, &mut Half) {
            assert!(sent.len() <= room && sent[..2] == bytes[..2]);
            // It is an answer, which nobody answers.
            assert_eq!(answer(&sent, transport, &mut Half), None);
        }
    }
});
