//! No document of an image makes us panic, and what is read from one keeps to its limits.
#![no_main]

use atoll_store::oci::{
    LAYERS_MAX, Platform, Reference, Told, parse_config, parse_manifest, parse_saved,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let platform = Platform { os: "linux".to_owned(), architecture: "amd64".to_owned() };
    match parse_manifest(bytes) {
        Ok(Told::Index(index)) => {
            let _ = (index.for_platform(&platform), index.named(None), index.named(Some("a")));
        }
        Ok(Told::Manifest(manifest)) => assert!(manifest.layers.len() <= LAYERS_MAX),
        Err(error) => assert!(error.to_string().len() < 100_000),
    }
    if let Ok(config) = parse_config(bytes, &platform) {
        assert!(config.diff_ids.len() <= LAYERS_MAX);
        for (name, value) in &config.settings.env {
            assert!(!name.is_empty() && !name.contains('=') && !value.contains('\0'));
        }
    }
    if let Ok(saved) = parse_saved(bytes, None) {
        assert!(saved.layers.len() <= LAYERS_MAX);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(reference) = text.parse::<Reference>()
    {
        let whole = reference.to_string();
        assert_eq!(whole.parse::<Reference>().unwrap(), reference, "{whole}");
        assert!(!whole.contains(['\n', ' ', '\0']));
        // A tag may have two dots, but no part is a way up.
        assert!(whole.split(['/', ':', '@']).all(|part| part != ".." && part != "."));
    }
});
