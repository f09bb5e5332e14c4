//! Addresses that stand for names inside a sandbox.
//!
//! A sandbox never learns where a host really is: each name gets an address of a range that
//! leads nowhere, and a connection to that address is a connection to the name. The address of
//! a name never changes and is never another's while the sandbox lives, so what programs keep
//! of it stays true. The table outlives the gateway, as a list.

use crate::name::Name;
use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Names and their addresses, of one sandbox.
#[derive(Debug, Clone)]
pub struct StandIns {
    range: Ipv4Net,
    /// The n-th has the n-th address of the range, from the second on.
    names: Vec<Name>,
    places: HashMap<Name, u32>,
}

/// What is kept of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The range.
    pub range: Ipv4Net,
    /// The names in the order in which they came.
    pub names: Vec<Name>,
}

/// Every address of the range is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "every one of the {count} addresses that stand for names is taken; a new sandbox has new ones"
)]
pub struct Full {
    /// How many there are.
    pub count: u32,
}

/// A list that is not what a table was kept as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    /// Nobody has the same name twice.
    #[error("{name} is kept twice")]
    Twice {
        /// Which.
        name: Name,
    },
    /// More names than addresses.
    #[error("more names are kept than the range has addresses")]
    TooMany(#[from] Full),
}

/// Most names of a sandbox, however large the range is.
const COUNT_MAX: u32 = 65_534;

/// Why a range cannot be one of addresses that stand for names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Not a network of IPv4.
    #[error("write a network of IPv4, as in \"11.0.0.0/15\"")]
    NotNetwork,
    /// Bits behind the prefix.
    #[error("it has bits behind its prefix; the network is {instead}")]
    Bits {
        /// What it is in.
        instead: Ipv4Net,
    },
    /// Too few addresses, or so many that hosts are among them that are meant as they are.
    #[error("its prefix is not from {PREFIX_MIN} to {PREFIX_MAX}")]
    Size,
    /// Addresses that mean something else inside.
    #[error("{used} is in use inside")]
    Used {
        /// Which.
        used: Ipv4Net,
    },
}

/// A larger range would take away much that is meant as it is.
const PREFIX_MIN: u8 = 8;

/// A smaller one is full soon.
const PREFIX_MAX: u8 = 24;

/// This network, loopback, the sandbox's own addresses, and what is no single host.
const USED: [(Ipv4Addr, u8); 5] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

impl Kept {
    /// An empty table, with addresses of the range that `text` says.
    ///
    /// # Errors
    ///
    /// See [`RangeError`].
    pub fn empty(text: &str) -> Result<Self, RangeError> {
        let range: Ipv4Net = text.parse().map_err(|_| RangeError::NotNetwork)?;
        if range.trunc() != range {
            return Err(RangeError::Bits { instead: range.trunc() });
        }
        if !(PREFIX_MIN..=PREFIX_MAX).contains(&range.prefix_len()) {
            return Err(RangeError::Size);
        }
        let used = USED.map(|(address, prefix)| Ipv4Net::new_assert(address, prefix));
        let overlaps = |used: &Ipv4Net| used.contains(&range) || range.contains(used);
        match used.into_iter().find(overlaps) {
            Some(used) => Err(RangeError::Used { used }),
            None => Ok(Self { range, names: Vec::new() }),
        }
    }
}

impl StandIns {
    /// An empty table that gives addresses of `range`, but neither its first nor its last.
    #[must_use]
    pub fn new(range: Ipv4Net) -> Self {
        Self { range: range.trunc(), names: Vec::new(), places: HashMap::new() }
    }

    /// A table as it was.
    ///
    /// # Errors
    ///
    /// See [`KeptError`].
    pub fn restore(kept: Kept) -> Result<Self, KeptError> {
        let mut table = Self::new(kept.range);
        for name in kept.names {
            if table.places.contains_key(&name) {
                return Err(KeptError::Twice { name });
            }
            table.address(&name)?;
        }
        Ok(table)
    }

    /// What is to be kept of it.
    #[must_use]
    pub fn kept(&self) -> Kept {
        Kept { range: self.range, names: self.names.clone() }
    }

    /// The address of a name, from now on if it had none.
    ///
    /// # Errors
    ///
    /// [`Full`], for a name that has none.
    pub fn address(&mut self, name: &Name) -> Result<Ipv4Addr, Full> {
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                let count = self.count();
                let place = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
                if place >= count {
                    return Err(Full { count });
                }
                self.names.push(name.clone());
                self.places.insert(name.clone(), place);
                place
            }
        };
        Ok(Ipv4Addr::from_bits(self.range.network().to_bits() + 1 + place))
    }

    /// How many names have an address.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name that an address stands for; none if it was never given out.
    #[must_use]
    pub fn name(&self, address: Ipv4Addr) -> Option<&Name> {
        let place =
            address.to_bits().checked_sub(self.range.network().to_bits())?.checked_sub(1)?;
        self.names.get(usize::try_from(place).ok()?)
    }

    /// How many names there can be.
    fn count(&self) -> u32 {
        let size = self.range.broadcast().to_bits() - self.range.network().to_bits();
        size.saturating_sub(1).min(COUNT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(number: u32) -> Name {
        format!("n{number}.example").parse().unwrap()
    }

    #[test]
    fn ranges_are_large_enough_and_not_in_use() {
        let bits = RangeError::Bits { instead: "11.0.0.0/15".parse().unwrap() };
        let used = |range: &str| RangeError::Used { used: range.parse().unwrap() };
        for (text, error) in [
            ("", RangeError::NotNetwork),
            ("11.0.0.0", RangeError::NotNetwork),
            ("fd00::/16", RangeError::NotNetwork),
            ("11.0.0.1/15", bits),
            ("11.0.0.0/25", RangeError::Size),
            ("10.0.0.0/7", RangeError::Size),
            ("127.1.0.0/16", used("127.0.0.0/8")),
            ("198.18.0.0/15", used("198.18.0.0/24")),
            ("240.0.0.0/8", used("224.0.0.0/3")),
        ] {
            assert_eq!(Kept::empty(text), Err(error), "{text}");
        }
        for text in ["11.0.0.0/15", "9.0.0.0/8", "203.0.113.0/24", "198.19.0.0/16"] {
            let kept = Kept::empty(text).unwrap();
            assert_eq!((kept.range.to_string().as_str(), kept.names.len()), (text, 0));
        }
    }

    #[test]
    fn a_name_has_one_address_for_ever() {
        let mut table = StandIns::new("11.0.0.0/16".parse().unwrap());
        let first = table.address(&name(1)).unwrap();
        assert_eq!(first, Ipv4Addr::new(11, 0, 0, 1));
        assert_eq!(table.address(&name(2)).unwrap(), Ipv4Addr::new(11, 0, 0, 2));
        assert_eq!(table.address(&name(1)).unwrap(), first);
        assert_eq!(table.name(first), Some(&name(1)));
        for nobodys in ["11.0.0.0", "11.0.0.3", "11.1.0.1", "10.255.255.255", "0.0.0.0"] {
            assert_eq!(table.name(nobodys.parse().unwrap()), None);
        }
        let text = serde_json::to_string(&table.kept()).unwrap();
        let mut again = StandIns::restore(serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(again.address(&name(2)), table.address(&name(2)));
        assert_eq!(again.address(&name(3)), table.address(&name(3)));
    }

    #[test]
    fn a_full_table_says_so_and_goes_on_for_those_it_has() {
        let mut table = StandIns::new("11.0.0.0/29".parse().unwrap());
        for number in 0..6 {
            table.address(&name(number)).unwrap();
        }
        assert_eq!(table.address(&name(6)), Err(Full { count: 6 }));
        assert_eq!(table.address(&name(5)).unwrap(), Ipv4Addr::new(11, 0, 0, 6));
        for tiny in ["11.0.0.1/32", "11.0.0.0/31"] {
            let mut none = StandIns::new(tiny.parse().unwrap());
            assert_eq!(none.address(&name(0)), Err(Full { count: 0 }));
        }
        let (twice, many) = (vec![name(1), name(1)], (0..7).map(name).collect());
        for names in [twice, many] {
            assert!(
                StandIns::restore(Kept { range: "11.0.0.0/29".parse().unwrap(), names }).is_err()
            );
        }
        // However large it is.
        let mut large = StandIns::new("11.0.0.0/8".parse().unwrap());
        let last = (0..COUNT_MAX).map(|number| large.address(&name(number)).unwrap()).last();
        assert_eq!(last, Some(Ipv4Addr::new(11, 0, 255, 254)));
        assert!(large.address(&name(COUNT_MAX)).is_err());
    }

    proptest! {
        #[test]
        fn nobody_has_anothers_address(numbers in prop::collection::vec(0_u32..40, 0..80)) {
            let mut table = StandIns::new("11.0.0.0/27".parse().unwrap());
            for number in numbers {
                if let Ok(address) = table.address(&name(number)) {
                    prop_assert_eq!(table.name(address), Some(&name(number)));
                }
            }
            prop_assert_eq!(StandIns::restore(table.kept()).unwrap().kept(), table.kept());
        }
    }
}
