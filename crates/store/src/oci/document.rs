//! Indexes, manifests and configurations.
//!
//! Source: the OCI image specification, and Docker's "Image Manifest V 2, Schema 2" and
//! "Docker Image Specification v1.2" (what `docker save` writes).

use super::LAYERS_MAX;
use crate::digest::{Digest, DigestError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most entries of an index.
const MANIFESTS_MAX: usize = 1000;

/// Most bytes of all variables of an image together.
const ENV_BYTES_MAX: usize = 64 << 10;

/// Names of a document, or of a layer, and its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    /// What kind of document it is.
    pub media_type: String,
    /// Its sha256.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
}

/// A machine that programs run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// As Go calls operating systems.
    pub os: String,
    /// As Go calls processors.
    pub architecture: String,
}

impl Platform {
    /// This machine's.
    #[must_use]
    pub fn own() -> Self {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Self { os: "linux".to_owned(), architecture: architecture.to_owned() }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)
    }
}

/// Manifests for several machines, or of several images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    descriptor: Descriptor,
    platform: Option<Platform>,
    /// What it is called in a layout.
    name: Option<String>,
}

/// An image's layers, bottom first, as they are packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The configuration.
    pub config: Descriptor,
    /// The layers.
    pub layers: Vec<Descriptor>,
}

/// What a document turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// One of many images.
    Index(Index),
    /// An image.
    Manifest(Manifest),
}

/// What a configuration says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// For which machine.
    pub platform: Platform,
    /// When it was made, as it says.
    pub created: Option<String>,
    /// sha256 of the layers when decompressed, bottom first.
    pub diff_ids: Vec<Digest>,
    /// How it wants to be run.
    pub settings: Settings,
}

/// How an image wants to be run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Variables.
    pub env: Vec<(String, String)>,
    /// Directory of commands.
    pub workdir: Option<String>,
    /// User of commands.
    pub user: Option<String>,
    /// The program, with the first of its arguments.
    pub entrypoint: Vec<String>,
    /// The program's arguments, or the program.
    pub cmd: Vec<String>,
    /// Ports that it listens at, such as `80/tcp`.
    pub ports: Vec<String>,
}

/// One image of what `docker save` wrote: names of files in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The configuration.
    pub config: String,
    /// The layers, bottom first.
    pub layers: Vec<String>,
    /// What the image is called.
    pub names: Vec<String>,
}

/// Why a document is not understood.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("the {what} is no JSON of the right form")]
    Json { what: &'static str, source: serde_json::Error },
    #[error("the {what} has a digest that is none")]
    Digest { what: &'static str, source: DigestError },
    #[error("images of Docker's first schema are not supported: push it once more")]
    Schema1,
    #[error("a {what} of kind {kind:?} is not supported")]
    Kind { what: &'static str, kind: String },
    #[error("it has {count} {what}; {most} are the most")]
    TooMany { what: &'static str, count: usize, most: usize },
    #[error("the configuration lists {diff_ids} layers, the manifest {layers}")]
    LayerCount { diff_ids: usize, layers: usize },
    #[error("there is none for {wanted}, but for {there}")]
    NoPlatform { wanted: Platform, there: String },
    #[error("it is for {found}, and this machine is {wanted}")]
    OtherPlatform { found: Platform, wanted: Platform },
    #[error("there are several images in it; say which: {names}")]
    Which { names: String },
    #[error("there is no image called {name:?} in it; there are: {names}")]
    NoName { name: String, names: String },
    #[error("it lists no image")]
    Empty,
    #[error("{what} has a NUL")]
    Nul { what: &'static str },
    #[error("its variables take {bytes} bytes; {most} are the most")]
    Env { bytes: usize, most: usize },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDocument {
    schema_version: Option<u32>,
    media_type: Option<String>,
    config: Option<RawDescriptor>,
    layers: Option<Vec<RawDescriptor>>,
    manifests: Option<Vec<RawDescriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDescriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<RawPlatform>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct RawPlatform {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
}

impl RawDescriptor {
    fn read(self, what: &'static str) -> Result<Descriptor, DocumentError> {
        let digest = self.digest.parse();
        let digest = digest.map_err(|source| DocumentError::Digest { what, source })?;
        Ok(Descriptor { media_type: self.media_type, digest, size: self.size })
    }
}

/// Reads an index or a manifest, whichever it is.
///
/// # Errors
///
/// [`DocumentError`].
pub fn parse_manifest(bytes: &[u8]) -> Result<Told, DocumentError> {
    let what = "manifest";
    let raw: RawDocument =
        serde_json::from_slice(bytes).map_err(|source| DocumentError::Json { what, source })?;
    if raw.schema_version == Some(1) {
        return Err(DocumentError::Schema1);
    }
    if let Some(manifests) = raw.manifests {
        limit("manifests", manifests.len(), MANIFESTS_MAX)?;
        let entries = manifests.into_iter().map(entry).collect::<Result<_, _>>()?;
        return Ok(Told::Index(Index { entries }));
    }
    let (Some(config), Some(layers)) = (raw.config, raw.layers) else {
        let kind = raw.media_type.unwrap_or_default().chars().take(200).collect();
        return Err(DocumentError::Kind { what, kind });
    };
    limit("layers", layers.len(), LAYERS_MAX)?;
    let config = config.read("configuration")?;
    let kinds = [
        "",
        "application/vnd.oci.image.config.v1+json",
        "application/vnd.docker.container.image.v1+json",
    ];
    let is_image = kinds.contains(&config.media_type.as_str());
    if !is_image {
        let kind = config.media_type.chars().take(200).collect();
        return Err(DocumentError::Kind { what: "configuration", kind });
    }
    let layers = layers.into_iter().map(layer).collect::<Result<_, _>>()?;
    Ok(Told::Manifest(Manifest { config, layers }))
}

fn entry(raw: RawDescriptor) -> Result<Entry, DocumentError> {
    let platform = raw.platform.as_ref().map(|platform| Platform {
        os: platform.os.clone(),
        architecture: platform.architecture.clone(),
    });
    let names = raw.annotations.as_ref();
    let name = names.and_then(|all| all.get("org.opencontainers.image.ref.name")).cloned();
    Ok(Entry { platform, name, descriptor: raw.read("manifest")? })
}

fn layer(raw: RawDescriptor) -> Result<Descriptor, DocumentError> {
    let layer = raw.read("layer")?;
    let packings = ["", "+gzip", "+zstd", ".gzip", ".zstd"];
    let is_known =
        ["application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar"]
            .iter()
            .filter_map(|start| layer.media_type.strip_prefix(start))
            .any(|packing| packings.contains(&packing));
    if is_known || layer.media_type.is_empty() {
        return Ok(layer);
    }
    let kind = layer.media_type.chars().take(200).collect();
    Err(DocumentError::Kind { what: "layer", kind })
}

impl Index {
    /// The one for a machine.
    ///
    /// # Errors
    ///
    /// [`DocumentError::NoPlatform`].
    pub fn for_platform(&self, wanted: &Platform) -> Result<&Descriptor, DocumentError> {
        let found = self.entries.iter().find(|entry| entry.platform.as_ref() == Some(wanted));
        // What names no machine is asked itself, if there is nothing else.
        let only = match self.entries.as_slice() {
            [Entry { platform: None, .. }] => self.entries.first(),
            _ => None,
        };
        found.or(only).map(|entry| &entry.descriptor).ok_or_else(|| {
            let there = self.entries.iter().filter_map(|entry| entry.platform.as_ref());
            // Attestations are for a machine that nobody has.
            let there = there.filter(|platform| platform.os != "unknown").take(20);
            let there = there.map(ToString::to_string).collect::<Vec<_>>().join(", ");
            DocumentError::NoPlatform { wanted: wanted.clone(), there }
        })
    }

    /// The one of that name in a layout, or the only one.
    ///
    /// # Errors
    ///
    /// [`DocumentError::Which`] and [`DocumentError::NoName`].
    pub fn named(&self, name: Option<&str>) -> Result<&Descriptor, DocumentError> {
        let called = |entry: &&Entry| entry.name.as_deref() == name;
        match (name, self.entries.as_slice()) {
            (None, []) => Err(DocumentError::Empty),
            (None, [only]) => Ok(&only.descriptor),
            (None, _) => Err(DocumentError::Which { names: self.names() }),
            (Some(name), entries) => {
                let found = entries.iter().find(called).map(|entry| &entry.descriptor);
                let (name, names) = (name.to_owned(), self.names());
                found.ok_or(DocumentError::NoName { name, names })
            }
        }
    }

    fn names(&self) -> String {
        let names = self.entries.iter().filter_map(|entry| entry.name.as_deref());
        names.take(20).collect::<Vec<_>>().join(", ")
    }
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(default)]
    os: String,
    #[serde(default)]
    architecture: String,
    created: Option<String>,
    rootfs: RawRootfs,
    config: Option<RawSettings>,
}

#[derive(Deserialize)]
struct RawRootfs {
    diff_ids: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawSettings {
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    exposed_ports: Option<BTreeMap<String, serde::de::IgnoredAny>>,
}

/// Reads a configuration, which must be for a machine like `wanted`.
///
/// # Errors
///
/// [`DocumentError`].
pub fn parse_config(bytes: &[u8], wanted: &Platform) -> Result<Config, DocumentError> {
    let what = "configuration";
    let raw: RawConfig =
        serde_json::from_slice(bytes).map_err(|source| DocumentError::Json { what, source })?;
    let platform = Platform { os: raw.os, architecture: raw.architecture };
    if platform != *wanted {
        return Err(DocumentError::OtherPlatform { found: platform, wanted: wanted.clone() });
    }
    let diff_ids = raw.rootfs.diff_ids.unwrap_or_default();
    limit("layers", diff_ids.len(), LAYERS_MAX)?;
    let digest = |text: String| {
        text.parse().map_err(|source| DocumentError::Digest { what: "configuration", source })
    };
    let diff_ids = diff_ids.into_iter().map(digest).collect::<Result<_, _>>()?;
    let settings = raw.config.map(settings).transpose()?.unwrap_or_default();
    let created = raw.created.filter(|text| text.len() <= 64);
    Ok(Config { platform, created, diff_ids, settings })
}

fn settings(raw: RawSettings) -> Result<Settings, DocumentError> {
    let env = raw.env.unwrap_or_default();
    let bytes = env.iter().map(String::len).sum();
    if bytes > ENV_BYTES_MAX {
        return Err(DocumentError::Env { bytes, most: ENV_BYTES_MAX });
    }
    if env.iter().any(|variable| variable.contains('\0')) {
        return Err(DocumentError::Nul { what: "a variable" });
    }
    // The last one of a name counts; what has no name is none.
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    for variable in env {
        if let Some((name, value)) = variable.split_once('=').filter(|(name, _)| !name.is_empty()) {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    let workdir = raw.working_dir.filter(|text| !text.is_empty());
    if workdir.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(DocumentError::Nul { what: "the working directory" });
    }
    let ports = raw.exposed_ports.unwrap_or_default().into_keys();
    Ok(Settings {
        env: variables.into_iter().collect(),
        workdir,
        user: raw.user.filter(|text| !text.is_empty()),
        entrypoint: raw.entrypoint.unwrap_or_default(),
        cmd: raw.cmd.unwrap_or_default(),
        ports: ports.take(100).collect(),
    })
}

impl Config {
    /// Whether it lists as many layers as its manifest.
    ///
    /// # Errors
    ///
    /// [`DocumentError::LayerCount`].
    pub fn check_layers(&self, layers: usize) -> Result<(), DocumentError> {
        let diff_ids = self.diff_ids.len();
        if diff_ids == layers {
            Ok(())
        } else {
            Err(DocumentError::LayerCount { diff_ids, layers })
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawSaved {
    config: String,
    layers: Option<Vec<String>>,
    repo_tags: Option<Vec<String>>,
}

/// Reads the list of images that `docker save` writes, and gives the one of that name, or the
/// only one.
///
/// # Errors
///
/// [`DocumentError`].
pub fn parse_saved(bytes: &[u8], name: Option<&str>) -> Result<Saved, DocumentError> {
    let what = "manifest.json";
    let all: Vec<RawSaved> =
        serde_json::from_slice(bytes).map_err(|source| DocumentError::Json { what, source })?;
    limit("images", all.len(), MANIFESTS_MAX)?;
    let tags = |one: &RawSaved| one.repo_tags.clone().unwrap_or_default();
    let names = all.iter().flat_map(tags).take(20).collect::<Vec<_>>().join(", ");
    let is_called = |one: &RawSaved| tags(one).iter().any(|tag| Some(tag.as_str()) == name);
    let found = match (name, all.len()) {
        (None, 0) => return Err(DocumentError::Empty),
        (None, 1) => all.into_iter().next(),
        (None, _) => return Err(DocumentError::Which { names }),
        (Some(_), _) => all.into_iter().find(is_called),
    };
    let name = name.unwrap_or_default().to_owned();
    let found = found.ok_or(DocumentError::NoName { name, names })?;
    let layers = found.layers.unwrap_or_default();
    limit("layers", layers.len(), LAYERS_MAX)?;
    Ok(Saved { config: found.config, layers, names: found.repo_tags.unwrap_or_default() })
}

fn limit(what: &'static str, count: usize, most: usize) -> Result<(), DocumentError> {
    if count > most { Err(DocumentError::TooMany { what, count, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u8) -> String {
        Digest::of(&[n]).to_string()
    }

    fn own() -> Platform {
        Platform { os: "linux".to_owned(), architecture: "amd64".to_owned() }
    }

    fn manifest(layer_kind: &str) -> String {
        format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{}","size":7}},
                "layers":[{{"mediaType":"{layer_kind}","digest":"{}","size":9,"urls":["http://x"]}}],"annotations":{{}}}}"#,
            digest(1),
            digest(2)
        )
    }

    #[test]
    fn manifests_of_both_kinds_are_read() {
        for kind in [
            "application/vnd.oci.image.layer.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+gzip",
            "application/vnd.oci.image.layer.v1.tar+zstd",
            "application/vnd.docker.image.rootfs.diff.tar.gzip",
        ] {
            let Told::Manifest(read) = parse_manifest(manifest(kind).as_bytes()).unwrap() else {
                panic!("an index")
            };
            assert_eq!((read.config.size, read.layers.len(), read.layers[0].size), (7, 1, 9));
        }
        for kind in [
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
            "application/vnd.oci.image.layer.nondistributable.v1.tar",
            "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
            "application/wasm",
        ] {
            let error = parse_manifest(manifest(kind).as_bytes()).unwrap_err();
            assert!(matches!(error, DocumentError::Kind { what: "layer", .. }), "{kind}: {error}");
        }
    }

    #[test]
    fn other_documents_are_refused_by_what_they_are() {
        let parse = |text: &str| parse_manifest(text.as_bytes()).unwrap_err();
        assert!(matches!(parse(r#"{"schemaVersion":1,"fsLayers":[]}"#), DocumentError::Schema1));
        assert!(matches!(parse("{}"), DocumentError::Kind { .. }));
        for text in ["", "[]", "{", r#"{"layers":7}"#, r#"{"config":{"digest":"x","size":-1}}"#] {
            assert!(matches!(parse(text), DocumentError::Json { .. }), "{text}");
        }
        let bad = manifest("").replace(&digest(2), "sha256:../../etc");
        assert!(matches!(parse(&bad), DocumentError::Digest { what: "layer", .. }));
        let helm = manifest("").replace("oci.image.config.v1+json", "cncf.helm.config.v1+json");
        assert!(matches!(parse(&helm), DocumentError::Kind { what: "configuration", .. }));
        let one = format!(r#"{{"mediaType":"","digest":"{}","size":1}}"#, digest(3));
        let many = vec![one; LAYERS_MAX + 1].join(",");
        let many =
            format!(r#"{{"config":{{"digest":"{}","size":1}},"layers":[{many}]}}"#, digest(1));
        assert!(matches!(parse(&many), DocumentError::TooMany { count: 129, .. }));
    }

    fn index() -> Index {
        let entry = |n: u8, platform: &str, name: &str| {
            format!(
                r#"{{"mediaType":"m","digest":"{}","size":1,{platform}"annotations":{{"org.opencontainers.image.ref.name":"{name}"}}}}"#,
                digest(n)
            )
        };
        let text = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{},{}]}}"#,
            entry(1, r#""platform":{"os":"linux","architecture":"arm64"},"#, "one"),
            entry(2, r#""platform":{"os":"linux","architecture":"amd64"},"#, "two"),
            entry(3, r#""platform":{"os":"unknown","architecture":"unknown"},"#, ""),
        );
        let Told::Index(index) = parse_manifest(text.as_bytes()).unwrap() else { panic!() };
        index
    }

    #[test]
    fn an_index_gives_what_fits_this_machine() {
        let index = index();
        assert_eq!(index.for_platform(&own()).unwrap().digest.to_string(), digest(2));
        let other = Platform { os: "linux".to_owned(), architecture: "riscv64".to_owned() };
        let error = index.for_platform(&other).unwrap_err().to_string();
        assert_eq!(error, "there is none for linux/riscv64, but for linux/arm64, linux/amd64");
        assert_eq!(index.named(Some("one")).unwrap().digest.to_string(), digest(1));
        assert!(matches!(index.named(None), Err(DocumentError::Which { .. })));
        assert!(matches!(index.named(Some("x")), Err(DocumentError::NoName { .. })));
    }

    #[test]
    fn configurations_say_how_to_run() {
        let text = format!(
            r#"{{"os":"linux","architecture":"amd64","created":"2026-01-01T00:00:00Z","rootfs":{{"type":"layers","diff_ids":["{}"]}},
               "config":{{"Env":["A=1","B","A=2","=x","C=d=e"],"WorkingDir":"/w","User":"","Cmd":["sh"],"Entrypoint":null,"ExposedPorts":{{"80/tcp":{{}}}},"Labels":null}}}}"#,
            digest(1)
        );
        let config = parse_config(text.as_bytes(), &own()).unwrap();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(config.settings.env, [pair("A", "2"), pair("C", "d=e")]);
        assert_eq!(config.settings.workdir.as_deref(), Some("/w"));
        assert_eq!((config.settings.user, config.settings.cmd), (None, vec!["sh".to_owned()]));
        assert_eq!(config.settings.ports, ["80/tcp"]);
        let other = text.replace("amd64", "arm64");
        let error = parse_config(other.as_bytes(), &own()).unwrap_err();
        assert!(matches!(error, DocumentError::OtherPlatform { .. }), "{error}");
        let none = text.replace(r#""config":{"#, r#""other":{"#);
        assert_eq!(parse_config(none.as_bytes(), &own()).unwrap().settings, Settings::default());
        let nul = text.replace("A=1", "A=\\u0000");
        assert!(matches!(parse_config(nul.as_bytes(), &own()), Err(DocumentError::Nul { .. })));
        let long = text.replace("A=1", &format!("A={}", "x".repeat(ENV_BYTES_MAX)));
        assert!(matches!(parse_config(long.as_bytes(), &own()), Err(DocumentError::Env { .. })));
    }

    #[test]
    fn of_several_saved_images_one_is_named() {
        let one = r#"{"Config":"c","RepoTags":["a:1","a:2"],"Layers":["l/layer.tar"]}"#;
        let saved = |text: &str, name| parse_saved(text.as_bytes(), name);
        let only = format!("[{one}]");
        assert_eq!(saved(&only, None).unwrap().layers, ["l/layer.tar"]);
        assert_eq!(saved(&only, Some("a:2")).unwrap().names, ["a:1", "a:2"]);
        assert!(matches!(saved(&only, Some("b")), Err(DocumentError::NoName { .. })));
        let two = format!(r#"[{one},{{"Config":"d","RepoTags":null,"Layers":null}}]"#);
        assert!(matches!(saved(&two, None), Err(DocumentError::Which { .. })));
        assert!(matches!(saved("[]", None), Err(DocumentError::Empty)));
    }
}
