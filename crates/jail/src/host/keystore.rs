//! The store of certificates in which Java has the authorities that it trusts.
//!
//! Source: `sun.security.provider.JavaKeyStore` of OpenJDK, whose format this is ("JKS"); its
//! runtimes of every version read it, under whatever name.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use sha1::{Digest as _, Sha1};

const MAGIC: [u8; 4] = 0xfeed_feed_u32.to_be_bytes();
const VERSION: [u8; 4] = 2_u32.to_be_bytes();
/// Magic, version, and the number of entries.
const HEAD_BYTES: usize = 12;
const DIGEST_BYTES: usize = 20;
const TRUSTED: [u8; 4] = 2_u32.to_be_bytes();
/// What stores of authorities are sealed with everywhere; it keeps nothing secret.
const PASSWORD: &str = "changeit";
/// The object identifier 1.2.840.113549.1.9.22.1 (RFC 7292, section 4.2.3) as DER has it.
const X509: [u8; 12] = [0x06, 0x0a, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];

/// A store with the certificates in `kept`, another store, and those in `own`, PEM; where the user
/// has `named` some, in PEM too, those are in place of the ones in `kept`.
///
/// Of a store that is encrypted nothing is known; then `None`, as of what is no store.
pub(super) fn store(kept: &[u8], named: Option<&[u8]>, own: &str) -> Option<Vec<u8>> {
    let (mut count, mut entries) = match (named, jks(kept)) {
        (Some(named), _) => listed("named", &parsed(named)),
        (None, Some((count, entries))) => (count, entries.to_vec()),
        (None, None) => listed("kept", &pkcs12(kept)),
    };
    if count == 0 {
        return None;
    }
    let (added, own) = listed("own", &parsed(own.as_bytes()));
    count += added;
    entries.extend(own);
    sealed(count, entries)
}

/// What cannot be read is left out, as other programs do.
fn parsed(pem: &[u8]) -> Vec<Vec<u8>> {
    let all = CertificateDer::pem_slice_iter(pem);
    all.filter_map(Result::ok).map(|certificate| certificate.to_vec()).collect()
}

/// The number of entries, and the entries as they are.
fn jks(store: &[u8]) -> Option<(usize, &[u8])> {
    let rest = store.strip_prefix(&MAGIC)?.strip_prefix(&VERSION)?;
    let (count, rest) = rest.split_first_chunk()?;
    let (entries, _) = rest.split_at_checked(rest.len().checked_sub(DIGEST_BYTES)?)?;
    Some((usize::try_from(u32::from_be_bytes(*count)).ok()?, entries))
}

/// The certificates in a store of PKCS #12 without a password, as newer runtimes come with it:
/// where nothing is encrypted they can be told by their type.
fn pkcs12(store: &[u8]) -> Vec<Vec<u8>> {
    let finder = memchr::memmem::Finder::new(&X509);
    let places = finder.find_iter(store).map(|at| at + X509.len());
    places.filter_map(|at| certificate_at(&store[at..])).collect()
}

/// `[0] EXPLICIT OCTET STRING` (RFC 7292, section 4.2.3).
fn certificate_at(der: &[u8]) -> Option<Vec<u8>> {
    let octets = content(der, 0xa0)?;
    content(octets, 0x04).map(<[u8]>::to_vec)
}

/// What a value of DER with this tag holds.
fn content(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (first, rest) = der.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.get(..length)
}

/// The number of certificates, and entries of them as trusted ones, without a date.
fn listed(of: &str, certificates: &[Vec<u8>]) -> (usize, Vec<u8>) {
    let mut entries = Vec::new();
    for (number, certificate) in certificates.iter().enumerate() {
        let length = u32::try_from(certificate.len()).unwrap_or(u32::MAX);
        entries.extend(TRUSTED);
        entries.extend(text(&format!("atoll-{of}-{number}")));
        entries.extend([0; 8]);
        entries.extend(text("X.509"));
        entries.extend(length.to_be_bytes());
        entries.extend(certificate);
    }
    (certificates.len(), entries)
}

/// As `java.io.DataOutput` writes it; all of ours is short, and ASCII.
fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes(), text.as_bytes()].concat()
}

fn sealed(count: usize, entries: Vec<u8>) -> Option<Vec<u8>> {
    let count = u32::try_from(count).ok()?.to_be_bytes();
    let mut store = Vec::with_capacity(HEAD_BYTES + entries.len() + DIGEST_BYTES);
    store.extend([MAGIC, VERSION, count].concat());
    store.extend(entries);
    let mut digest = Sha1::new();
    digest.update(PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    digest.update("Mighty Aphrodite");
    digest.update(&store);
    store.extend(digest.finalize());
    Some(store)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::host) fn pem(bytes: &[u8]) -> String {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    }

    pub(in crate::host) fn bags(certificates: &[&[u8]]) -> Vec<u8> {
        let mut store = b"\x30\x82\x10\x00".to_vec();
        for certificate in certificates {
            let length = u16::try_from(certificate.len()).unwrap();
            store.extend(X509);
            store.extend([&[0xa0, 0x82], &(length + 4).to_be_bytes()[..]].concat());
            store.extend([&[0x04, 0x82], &length.to_be_bytes()[..], certificate].concat());
        }
        store
    }

    #[test]
    fn what_was_kept_stays_and_the_own_one_comes_to_it() {
        let long = [7; 300];
        let own = pem(b"own");
        let first = store(&bags(&[b"first", &long]), None, &own).unwrap();
        let (count, entries) = jks(&first).unwrap();
        assert_eq!(count, 3);
        for certificate in [&b"first"[..], &long] {
            assert!(memchr::memmem::find(entries, certificate).is_some());
        }
        assert!(entries.ends_with(b"X.509\x00\x00\x00\x03own"));
        let second = store(&first, None, &pem(b"new")).unwrap();
        let (count, more) = jks(&second).unwrap();
        assert_eq!(count, 4);
        assert!(more.starts_with(entries) && more.ends_with(b"new"));
        let named = [pem(b"a"), "and text\n".to_owned(), pem(b"b")].concat();
        let third = store(&first, Some(named.as_bytes()), &own).unwrap();
        let (count, other) = jks(&third).unwrap();
        assert_eq!(count, 3);
        assert!(memchr::memmem::find(other, b"first").is_none());
    }

    #[test]
    fn what_is_no_store_is_not_taken_for_an_empty_one() {
        let own = pem(b"own");
        let whole = store(&bags(&[b"first"]), None, &own).unwrap();
        let endless = [&X509[..], &[0xa0, 0x84, 0xff, 0xff, 0xff, 0xff]].concat();
        for odd in [&b""[..], b"-----BEGIN", &whole[..30], &endless, &bags(&[b"x"])[..20]] {
            assert_eq!(store(odd, None, &own), None, "{odd:?}");
        }
    }
}
