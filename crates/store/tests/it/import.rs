//! Images come in from files, whole or not at all, and what nobody has goes.

use super::support::archive::Archive;
use super::support::as_root_and_user;
use atoll_store::catalog::CatalogError;
use atoll_store::digest::Digest;
use atoll_store::import::{ImportError, Store};
use atoll_store::layer::LayerError;
use atoll_store::oci::{BundleError, DocumentError, Platform, Source};
use atoll_store::room::Quota;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const QUOTA: Quota = Quota { free_bytes: 0, images_bytes: None };

/// An image of some layers, in OCI's layout.
struct Layout {
    dir: tempfile::TempDir,
}

impl Layout {
    fn new(layers: &[Vec<u8>], packed: fn(&[u8]) -> Vec<u8>) -> Self {
        let layout = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(layout.path().join("blobs/sha256")).unwrap();
        let ids: Vec<String> =
            layers.iter().map(|bytes| format!("{:?}", Digest::of(bytes).to_string())).collect();
        let Platform { os, architecture } = Platform::own();
        let config = format!(
            r#"{{"os":"{os}","architecture":"{architecture}","config":{{"Env":["A=b"],"WorkingDir":"/w"}},
                "rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
            ids.join(",")
        );
        let config = layout.blob(config.as_bytes(), "application/vnd.oci.image.config.v1+json");
        let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
        let layers: Vec<_> = layers.iter().map(|bytes| layout.blob(&packed(bytes), kind)).collect();
        let manifest =
            format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{}]}}"#, layers.join(","));
        let manifest =
            layout.blob(manifest.as_bytes(), "application/vnd.oci.image.manifest.v1+json");
        let index = format!(r#"{{"schemaVersion":2,"manifests":[{manifest}]}}"#);
        std::fs::write(layout.path().join("index.json"), index).unwrap();
        std::fs::write(layout.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
            .unwrap();
        layout
    }

    fn blob(&self, bytes: &[u8], kind: &str) -> String {
        let digest = Digest::of(bytes);
        std::fs::write(self.path().join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":{}}}"#, bytes.len())
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn blobs(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir(self.path().join("blobs/sha256")).unwrap();
        all.map(|entry| entry.unwrap().path()).collect()
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn base() -> Vec<u8> {
    Archive::new().dir("bin", 0o755).file("bin/sh", "shell").file("gone", "x").bytes()
}

fn above() -> Vec<u8> {
    Archive::new().file("new", "y").file(".wh.gone", "").bytes()
}

struct Case {
    dir: tempfile::TempDir,
    store: Store,
}

impl Case {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), QUOTA).unwrap();
        Self { dir, store }
    }

    fn import(&self, name: &str) -> Result<Option<atoll_store::catalog::Image>, ImportError> {
        self.store.import(&Source::parse(name).unwrap(), name)
    }

    fn layers(&self) -> usize {
        self.store.layers.list().unwrap().len()
    }

    #[track_caller]
    fn check(&self, name: &str) {
        let image = self.import(name).unwrap().unwrap();
        assert_eq!(image.record.layers, [Digest::of(&base()), Digest::of(&above())], "{name}");
        let chain = self.store.layers.chain(&image.record.layers).unwrap();
        let names = chain.names(Path::new("")).unwrap();
        assert!(names.keys().eq(["bin", "new"]), "{name}");
        assert_eq!(chain.read(Path::new("bin/sh"), 9).unwrap().unwrap(), b"shell");
        assert_eq!(image.record.settings.workdir.as_deref(), Some("/w"));
        assert_eq!(self.store.catalog.find(name).unwrap().unwrap().record, image.record);
    }
}

macro_rules! both {
    ($($name:ident => $body:block)*) => { $(
        #[test]
        fn $name() {
            fn body() $body
            as_root_and_user(concat!("import::", stringify!($name)), body);
        }
    )* };
}

both! {
    every_form_of_an_image_is_told_and_comes_out_the_same => {
        let case = Case::new();
        let layout = Layout::new(&[base(), above()], gzip);
        let plain = Layout::new(&[base(), above()], <[u8]>::to_vec);
        case.check(&format!("oci:{}", layout.path().display()));
        case.check(&layout.path().display().to_string());
        case.check(&plain.path().display().to_string());
        assert_eq!(case.layers(), 2, "however packed, they are the same");
        // Archives of both, plain and compressed.
        let files = tempfile::tempdir().unwrap();
        let tar = |name: &str, from: &Path, options: &[&str]| {
            let file = files.path().join(name);
            let status = Command::new("tar").args(options).arg("-cf").arg(&file).arg("-C").arg(from).arg(".").status();
            assert!(status.unwrap().success());
            file.display().to_string()
        };
        case.check(&tar("layout.tar", layout.path(), &[]));
        case.check(&format!("oci-archive:{}", tar("layout.tar.gz", layout.path(), &["-z"])));
        // What Docker wrote for years: a layer may be a link to another one's.
        let saved = tempfile::tempdir().unwrap();
        let config = plain.blobs().into_iter().find(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("rootfs"))).unwrap();
        std::fs::copy(&config, saved.path().join("c.json")).unwrap();
        let id = |n: u8| format!("{n}").repeat(64);
        for (n, bytes) in [(1, base()), (2, above())] {
            std::fs::create_dir(saved.path().join(id(n))).unwrap();
            std::fs::write(saved.path().join(id(n)).join("layer.tar"), bytes).unwrap();
        }
        std::fs::create_dir(saved.path().join(id(3))).unwrap();
        symlink(format!("../{}/layer.tar", id(2)), saved.path().join(id(3)).join("layer.tar")).unwrap();
        let manifest = format!(r#"[{{"Config":"c.json","RepoTags":["x:1"],"Layers":["{}/layer.tar","{}/layer.tar"]}}]"#, id(1), id(3));
        std::fs::write(saved.path().join("manifest.json"), manifest).unwrap();
        let file = tar("saved.tar", saved.path(), &[]);
        case.check(&file);
        case.check(&format!("docker-archive:{file}:x:1"));
        case.check(&tar("saved.tar.gz", saved.path(), &["-z"]));
        let error = case.import(&format!("docker-archive:{file}:y:1")).unwrap_err();
        let ImportError::Bundle { source, .. } = &error else { panic!("{error}") };
        let BundleError::Document { source, .. } = &**source else { panic!("{source}") };
        assert!(matches!(source, DocumentError::NoName { .. }), "{source}");
        // The control: files of a root file system are none of these.
        let root = files.path().join("root.tar");
        std::fs::write(&root, base()).unwrap();
        assert_eq!(case.import(&root.display().to_string()).unwrap(), None);
        assert_eq!(case.import("/").unwrap(), None);
        assert_eq!((case.layers(), case.store.catalog.list().unwrap().len()), (2, 1));
    }
    what_is_damaged_is_refused_and_leaves_nothing => {
        let case = Case::new();
        let layout = Layout::new(&[base(), above()], gzip);
        let name = layout.path().display().to_string();
        for blob in layout.blobs() {
            let content = std::fs::read(&blob).unwrap();
            // A byte in the middle is another one; and it ends before.
            let mut other = content.clone();
            other[content.len() / 2] ^= 1;
            for damaged in [other, content[..content.len() - 1].to_vec()] {
                std::fs::write(&blob, damaged).unwrap();
                let error = case.import(&name).unwrap_err();
                let is_said = match &error {
                    ImportError::Bundle { source, .. } => matches!(**source, BundleError::Digest { .. }),
                    ImportError::Layer(error) => matches!(
                        error,
                        LayerError::Digest { .. } | LayerError::Length { .. } | LayerError::Unpack { .. }
                    ),
                    _ => false,
                };
                assert!(is_said, "{error:?}");
                assert_eq!(case.store.catalog.list().unwrap(), []);
            }
            std::fs::remove_file(&blob).unwrap();
            let error = case.import(&name).unwrap_err();
            let ImportError::Bundle { source, .. } = &error else { panic!("{error}") };
            assert!(matches!(**source, BundleError::Missing { .. }), "{source:?}");
            std::fs::write(&blob, content).unwrap();
            // What was whole of it goes with the next collection.
            case.store.collect(|| Ok(BTreeSet::new())).unwrap();
            assert_eq!(case.layers(), 0);
        }
        case.check(&name);
        let no_root = Layout::new(&[above()], gzip);
        let error = case.import(&no_root.path().display().to_string()).unwrap_err();
        assert!(matches!(error, ImportError::NotARoot), "{error}");
    }
    a_layout_that_changed_is_read_again => {
        let case = Case::new();
        let layout = Layout::new(&[base(), above()], gzip);
        let name = layout.path().display().to_string();
        case.check(&name);
        // It is not read again: its layers could not be.
        for blob in layout.blobs() {
            std::fs::remove_file(blob).unwrap();
        }
        case.check(&name);
        let other = Layout::new(&[base()], gzip);
        for blob in other.blobs() {
            std::fs::copy(&blob, layout.path().join("blobs/sha256").join(blob.file_name().unwrap())).unwrap();
        }
        std::fs::copy(other.path().join("index.json"), layout.path().join("index.json")).unwrap();
        let image = case.import(&name).unwrap().unwrap();
        assert_eq!(image.record.layers.len(), 1);
        assert_eq!(case.store.catalog.find(&name).unwrap().unwrap().record, image.record);
    }
    what_others_need_is_kept => {
        let case = Case::new();
        let layout = Layout::new(&[base(), above()], gzip);
        let name = layout.path().display().to_string();
        case.check(&name);
        let collect = |kept: BTreeSet<Digest>| case.store.collect(|| Ok(kept)).unwrap().layers;
        assert_eq!(collect(BTreeSet::new()), 0);
        let image = case.store.catalog.find(&name).unwrap().unwrap();
        assert!(case.store.catalog.remove(&image, &name, || Ok::<_, CatalogError>(false)).unwrap());
        assert_eq!(collect(BTreeSet::from([Digest::of(&base())])), 1);
        assert!(case.store.has_all(&[Digest::of(&base())]));
        assert_eq!(collect(BTreeSet::new()), 1);
        assert_eq!(case.layers(), 0);
    }
    whoever_is_killed_leaves_whole_images => {
        let case = Case::new();
        // Whoever is killed is so between any two steps of these.
        let big: Vec<u8> = Archive::new().dir("bin", 0o755).file("big", &"x".repeat(3 << 20)).bytes();
        let layouts = [Layout::new(&[base(), big.clone()], gzip), Layout::new(&[base(), above()], gzip)];
        let names: Vec<String> = layouts.iter().map(|layout| layout.path().display().to_string()).collect();
        for round in 0_u64..25 {
            let mut children: Vec<Child> = names.iter().map(|name| importer(case.dir.path(), name)).collect();
            for child in &mut children {
                let mut output = BufReader::new(child.stdout.take().unwrap());
                let mut line = String::new();
                while !line.ends_with("round 1\n") {
                    assert_ne!(output.read_line(&mut line).unwrap(), 0, "it ended: {line}");
                }
                child.stdout = Some(output.into_inner());
            }
            at_another_time(round);
            for mut child in children {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            // What is listed is whole, whatever is left beside it.
            for image in case.store.catalog.list().unwrap() {
                assert!(case.store.has_all(&image.record.layers), "{image:?}");
                case.store.layers.chain(&image.record.layers).unwrap();
            }
            case.store.collect(|| Ok(BTreeSet::new())).unwrap();
            let known = case.store.catalog.layers().unwrap();
            let there: BTreeSet<Digest> = case.store.layers.list().unwrap().into_iter().map(|(id, _)| id).collect();
            assert_eq!(there, known);
        }
        // Nothing of all this is left over.
        for name in std::fs::read_dir(case.dir.path().join("image-layers")).unwrap() {
            let name = name.unwrap().file_name().into_string().unwrap();
            assert!(name == "locks" || Digest::from_file_name(&name).is_some(), "{name}");
        }
        for name in &names {
            case.import(name).unwrap().unwrap();
        }
        let shell = case.store.layers.tree(&Digest::of(&base())).join("bin/sh");
        assert_eq!(std::fs::read_to_string(shell).unwrap(), "shell");
    }
}

/// Each round, the processes are somewhere else in what they do.
#[expect(clippy::disallowed_methods, reason = "there is no condition: any time will do")]
fn at_another_time(round: u64) {
    std::thread::sleep(std::time::Duration::from_micros(round * 700));
}

const STATE: &str = "STORE_TEST_STATE";
const NAME: &str = "STORE_TEST_IMAGE";

fn importer(state: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "import::import_for_ever", "--ignored", "--nocapture"])
        .env(STATE, state)
        .env(NAME, name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the inner half of whoever_is_killed_leaves_whole_images"]
fn import_for_ever() {
    let store = Store::open(&PathBuf::from(std::env::var_os(STATE).unwrap()), QUOTA).unwrap();
    let name = std::env::var(NAME).unwrap();
    let source = Source::parse(&name).unwrap();
    for round in 1_u64.. {
        let image = store.import(&source, &name).unwrap().unwrap();
        assert!(store.has_all(&image.record.layers), "nobody collects what was just imported");
        if round == 1 {
            println!("round 1");
        }
        store.catalog.remove(&image, &name, || Ok::<_, CatalogError>(false)).unwrap();
        store.collect(|| Ok(BTreeSet::new())).unwrap();
    }
}
