//! Images come from a registry whatever it does wrong, or not at all.

use atoll_api::error::{ErrorCode, Retry};
use atoll_api::image::ImagePull;
use atoll_engine::images::{ImageError, Images, Outside};
use atoll_store::room::Quota;
use atoll_testkit::process::wait_until;
use atoll_testkit::registry::{Fault, Registry};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const QUOTA: Quota = Quota { free_bytes: 0, images_bytes: None };

struct Case {
    dir: tempfile::TempDir,
    images: Images,
    registry: Registry,
    layers: Vec<Vec<u8>>,
}

/// A layer of these files.
pub(crate) fn layer(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn open(dir: &std::path::Path, quota: Quota, outside: Outside) -> Images {
    Images::open(dir, quota, outside).unwrap()
}

impl Case {
    fn new() -> Self {
        Self::with(QUOTA)
    }

    fn with(quota: Quota) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let images = open(dir.path(), quota, Outside::default());
        let (registry, noise) = (Registry::start(), "0123456789abcdef".repeat(20_000));
        let layers = vec![
            layer(&[("bin/sh", "shell"), ("gone", "x")]),
            layer(&[("big", &noise)]),
            layer(&[(".wh.gone", ""), ("new", "y")]),
        ];
        let all: Vec<&[u8]> = layers.iter().map(Vec::as_slice).collect();
        registry.image("1", &all, r#"{"Env":["A=b"],"WorkingDir":"/w"}"#);
        Self { dir, images, registry, layers }
    }

    fn name(&self) -> String {
        self.registry.name("tools:1")
    }

    async fn pull(&self) -> Result<(), ImageError> {
        let image = self.images.pull(&self.name())?.outcome().await?.unwrap();
        assert_eq!(image.record.layers.len(), 3);
        let chain = self.images.store().layers.chain(&image.record.layers).unwrap();
        let names = chain.names(std::path::Path::new("")).unwrap();
        assert!(names.keys().eq(["big", "bin", "new"]));
        Ok(())
    }

    /// Nothing is listed, and nothing half done is left.
    async fn check_nothing(&self) {
        assert_eq!(self.images.list().await.unwrap(), []);
        wait_until("what was begun is gone", || {
            let names = std::fs::read_dir(self.dir.path().join("image-layers")).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.into_iter().all(|name| !name.starts_with('.'))
        });
    }

    fn blob(&self, layer: usize) -> String {
        format!("blobs/{}", atoll_store::digest::Digest::of(&self.layers[layer]))
    }
}

#[tokio::test]
async fn an_image_comes_with_what_it_says_of_itself() {
    let case = Case::new();
    let mut following = case.images.pull(&case.name()).unwrap();
    let mut last = None;
    let image = loop {
        match following.next().await {
            Ok(progress) => last = Some(progress),
            Err(done) => break done.unwrap().unwrap(),
        }
    };
    let last = last.unwrap();
    assert_eq!((last.layers_done, last.layers_total), (3, 3));
    assert_eq!(
        (last.bytes_done, last.bytes_total),
        (last.bytes_total, case.layers.iter().map(|l| l.len() as u64).sum())
    );
    assert_eq!(image.record.settings.env, [("A".to_owned(), "b".to_owned())]);
    case.pull().await.unwrap();
    assert_eq!(case.images.find(&case.name()).await.unwrap().record, image.record);
    // What is there is fetched no second time.
    case.registry.forget();
    let held = case.images.ensure(&case.name(), ImagePull::Missing).await.unwrap().unwrap();
    assert_eq!(held.image.record.id, image.record.id);
    assert_eq!(case.registry.asked(), [""; 0]);
    let held = case.images.ensure(&case.name(), ImagePull::Always).await.unwrap().unwrap();
    assert_eq!(held.image.record.id, image.record.id);
    let asked = case.registry.asked();
    assert!(asked.len() == 2 && asked[0].ends_with("manifests/1"), "{asked:?}");
    // By its digest too, and never more than is there.
    for text in [image.record.id.to_string(), image.names[0].manifest.unwrap().to_string()] {
        case.images.ensure(&text, ImagePull::Never).await.unwrap().unwrap();
    }
    let error =
        case.images.ensure(&case.registry.name("tools:2"), ImagePull::Never).await.unwrap_err();
    assert!(matches!(error, ImageError::NotHere { .. }), "{error}");
}

#[tokio::test]
async fn an_index_gives_what_is_for_this_machine() {
    let case = Case::new();
    let other = case.registry.image_for("other", "riscv64", &[&case.layers[2]], "{}");
    let own = case.registry.image("own", &[&case.layers[0]], "{}");
    let entry = |digest: &str, architecture: &str| {
        format!(
            r#"{{"mediaType":"m","digest":"{digest}","size":9,"platform":{{"os":"linux","architecture":"{architecture}"}}}}"#
        )
    };
    let architecture = atoll_store::oci::Platform::own().architecture;
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{},{}]}}"#,
        entry(&other, "riscv64"),
        entry(&own, &architecture)
    );
    let index = case.registry.manifest("both", &index);
    let name = case.registry.name("tools:both");
    let image = case.images.ensure(&name, ImagePull::Missing).await.unwrap().unwrap().image;
    assert_eq!(image.record.layers.len(), 1);
    assert_eq!(image.names[0].manifest.unwrap().to_string(), index);
    let pinned = case.registry.name(&format!("tools@{index}"));
    assert_eq!(
        case.images.ensure(&pinned, ImagePull::Missing).await.unwrap().unwrap().image.record,
        image.record
    );
    let error = case
        .images
        .ensure(&case.registry.name("tools:other"), ImagePull::Missing)
        .await
        .unwrap_err();
    assert!(matches!(error, ImageError::Document { .. }), "{error}");
    assert_eq!(error.to_api().code, ErrorCode::Invalid);
}

#[tokio::test]
async fn what_breaks_off_is_taken_up_where_it_broke() {
    let case = Case::new();
    let blob = case.blob(1);
    // Ever further: a registry that gives anything at all is asked for the rest.
    for times in [1, 3, 7] {
        case.registry.fail(&blob, Fault::Truncate(40_000), times);
        case.registry.fail(&case.blob(0), Fault::Status(503, ""), 1);
        case.registry.fail("manifests", Fault::Status(429, "Retry-After: 0\r\n"), 2);
        case.pull().await.unwrap();
        case.images.delete(&case.name()).await.unwrap();
        case.check_nothing().await;
    }
    // Also where it knows no ranges, and begins again each time.
    case.registry.recover();
    case.registry.fail(&blob, Fault::Truncate(40_000), 1);
    case.registry.fail(&blob, Fault::NoRanges, 1);
    case.pull().await.unwrap();
}

#[tokio::test]
async fn what_is_not_what_it_should_be_is_not_kept() {
    let case = Case::new();
    for (path, fault) in [
        (case.blob(1), Fault::Change),
        (case.blob(1), Fault::Lengthen),
        ("blobs".to_owned(), Fault::Change),
    ] {
        case.registry.fail(&path, fault.clone(), 100);
        let error = case.pull().await.unwrap_err();
        let is_said = matches!(&error, ImageError::Damaged { .. } | ImageError::Refused { .. });
        assert!(is_said, "{fault:?}: {error}");
        assert_eq!(error.to_api().code, ErrorCode::Invalid);
        case.check_nothing().await;
        case.registry.recover();
    }
    // A name with a digest is that, whatever the registry says.
    let digest = case.registry.image("2", &[&case.layers[0]], "{}");
    case.registry.fail("manifests", Fault::Change, 1);
    let error = case
        .images
        .ensure(&case.registry.name(&format!("tools@{digest}")), ImagePull::Missing)
        .await;
    assert!(matches!(error, Err(ImageError::Damaged { .. })), "{error:?}");
    // The control.
    case.pull().await.unwrap();
}

#[tokio::test]
async fn a_registry_that_asks_who_we_are_is_told() {
    let case = Case::new();
    case.registry.require("ada", "secret");
    let error = case.pull().await.unwrap_err();
    assert!(matches!(error, ImageError::Unauthorised { .. }), "{error}");
    let answer = error.to_api();
    assert_eq!(
        (answer.code, answer.details.reason.as_deref()),
        (ErrorCode::Forbidden, Some("registry-unauthorised"))
    );
    let file = case.dir.path().join("config.json");
    let outside = || Outside { logins: Some(file.clone()), ..Outside::default() };
    // ada:secret, and ada:other.
    for (packed, is_known) in [("YWRhOm90aGVy", false), ("YWRhOnNlY3JldA==", true)] {
        let text = format!(r#"{{"auths":{{"{}":{{"auth":"{packed}"}}}}}}"#, case.registry.host());
        std::fs::write(&file, text).unwrap();
        let images = open(case.dir.path(), QUOTA, outside());
        let outcome = images.pull(&case.name()).unwrap().outcome().await;
        assert_eq!(outcome.is_ok(), is_known, "{outcome:?}");
    }
    // Nobody is told the password but who gives tokens.
    assert!(case.registry.asked().iter().all(|path| !path.contains("secret")));
}

/// Row 17 of the reports: a pull that cannot work.
#[tokio::test]
async fn what_cannot_work_is_said_at_once_and_not_tried_again_and_again() {
    let case = Case::new();
    let began = Instant::now();
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/tools:1", listener.local_addr().unwrap())
    };
    let error = case.images.ensure(&nobody, ImagePull::Missing).await.unwrap_err();
    assert!(matches!(error, ImageError::Unreachable { .. }), "{error}");
    let missing = case.registry.name("tools:none");
    let error = case.images.ensure(&missing, ImagePull::Missing).await.unwrap_err();
    assert!(matches!(error, ImageError::NotFound { .. }), "{error}");
    let asked = case.registry.asked().len();
    // A hundred more that want it are told the same, and the registry hears nothing of it.
    for _ in 0..100 {
        let error = case.images.ensure(&missing, ImagePull::Missing).await.unwrap_err();
        assert!(matches!(error, ImageError::Again { .. }), "{error}");
        let answer = error.to_api();
        assert_eq!(answer.code, ErrorCode::NotFound);
        assert!(matches!(answer.retry, Retry::After { after_ms: 1..=2000 }), "{:?}", answer.retry);
    }
    assert_eq!(case.registry.asked().len(), asked);
    assert!(began.elapsed() < Duration::from_secs(10));
    // Who asks for a pull has it tried, and it works again when it does.
    case.registry.image("none", &[&case.layers[0]], "{}");
    case.images.pull(&missing).unwrap().outcome().await.unwrap();
    case.images.ensure(&missing, ImagePull::Missing).await.unwrap().unwrap();
    // One that limits us says when.
    case.registry.fail("manifests/1", Fault::Status(429, "Retry-After: 600\r\n"), 1);
    let error = case.pull().await.unwrap_err();
    let limited = Duration::from_secs(600);
    assert!(matches!(error, ImageError::Limited { after, .. } if after == limited), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_the_same_shares_the_work_and_it_ends_with_the_last() {
    let case = Case::new();
    let name = case.name();
    let all: Vec<_> = (0..20).map(|_| case.images.pull(&name).unwrap()).collect();
    for one in all {
        one.outcome().await.unwrap().unwrap();
    }
    let asked = case.registry.asked();
    let blobs = asked.iter().filter(|path| path.contains(&case.blob(1))).count();
    assert_eq!(blobs, 1, "{asked:?}");
    case.images.delete(&name).await.unwrap();
    // One that hangs is given up when nobody waits any more; then another begins anew.
    case.registry.fail(&case.blob(1), Fault::Silent, 1);
    case.registry.forget();
    let first = case.images.pull(&name).unwrap();
    let is_asked = || case.registry.asked().iter().any(|path| path.contains(&case.blob(1)));
    tokio::task::block_in_place(|| wait_until("the layer is asked for", is_asked));
    drop(first);
    case.registry.forget();
    tokio::task::block_in_place(|| {
        wait_until("it is given up", || case.images.pulling_count() == 0);
    });
    case.pull().await.unwrap();
    assert!(case.registry.asked().iter().any(|path| path.contains(&case.blob(1))));
}

#[tokio::test]
async fn what_has_no_room_is_refused_before_it_is_fetched() {
    let case = Case::with(Quota { free_bytes: 0, images_bytes: Some(100_000) });
    let error = case.pull().await.unwrap_err();
    assert!(matches!(error, ImageError::NoRoom { .. }), "{error}");
    let answer = error.to_api();
    assert_eq!(answer.code, ErrorCode::Capacity);
    assert_eq!(answer.details.limit.as_deref(), Some("images_bytes_max"));
    assert!(answer.details.needed_bytes > answer.details.free_bytes, "{:?}", answer.details);
    assert!(case.registry.asked().iter().all(|path| !path.contains(&case.blob(1))));
    case.check_nothing().await;
    // The control.
    let case = Case::with(Quota { free_bytes: 0, images_bytes: Some(1_000_000) });
    case.pull().await.unwrap();
}

#[tokio::test]
async fn what_is_used_is_neither_deleted_nor_pruned() {
    let case = Case::new();
    case.pull().await.unwrap();
    let image = case.images.find(&case.name()).await.unwrap();
    let is_used = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let (used, id) = (is_used.clone(), image.record.id);
    case.images.spare(Box::new(move || {
        let web = used.load(std::sync::atomic::Ordering::Relaxed).then(|| ("web".to_owned(), id));
        Ok(web.into_iter().collect())
    }));
    let error = case.images.delete(&case.name()).await.unwrap_err();
    assert!(matches!(&error, ImageError::InUse { users, .. } if *users == ["web"]), "{error}");
    assert_eq!(error.to_api().code, ErrorCode::Conflict);
    assert_eq!(case.images.prune(true).await.unwrap().images, 0);
    is_used.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(case.images.prune(false).await.unwrap().images, 0, "it has a name");
    // What somebody holds stays, and what another thing needs.
    let held = case.images.ensure(&case.name(), ImagePull::Never).await.unwrap();
    let kept = image.record.layers[0];
    case.images.keep(Box::new(move || Ok(BTreeSet::from([kept]))));
    let pruned = case.images.prune(true).await.unwrap();
    assert_eq!((pruned.images, pruned.layers), (1, 0));
    drop(held);
    assert_eq!(case.images.prune(false).await.unwrap().layers, 2);
    assert!(case.images.store().has_all(&[kept]));
}
