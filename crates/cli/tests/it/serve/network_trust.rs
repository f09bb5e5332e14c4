//! Whom programs of a server's sandbox trust: hosts that TLS is passed through to, which an authority
//! vouches for that the server was told of, and those that it is opened for.

use super::execs::{printed, run};
use super::{Served, each};
use atoll_testkit::image::copy_programs;
use atoll_testkit::internet::{Internet, Request, Response};
use atoll_testkit::run::{Project, User};
use atoll_testkit::skip::is_installed;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const PASSED: &str = "pass.test";
const OPENED: &str = "open.test";

fn told(request: &Request) -> Response {
    let text = format!("{} {}\n", request.method, request.path);
    (200, Vec::new(), text.into_bytes())
}

/// A server, and a sandbox `web` of this image that may reach both.
fn with_both(
    image: impl Fn(&Project) -> String,
    test: impl Fn(&mut Served<'_>, &dyn Fn(&str) -> String),
) {
    each(|project| {
        let internet = Internet::new();
        for name in [PASSED, OPENED] {
            internet.name(name, &["127.0.0.1"]);
        }
        let port = internet.https(&[PASSED, OPENED], told).port;
        let mut served = Served::start_in(project, &internet);
        let allow = [
            format!("{PASSED}:{port}"),
            format!("https://{OPENED}:{port}/ok/**"),
            format!("127.0.0.1/32:{port}"),
        ];
        let request =
            json!({ "name": "web", "image": image(project), "network": { "allow": allow } });
        let made = served.ask("POST", "/v1/sandboxes", Some(&request));
        assert_eq!(made.status, 201, "{made:?}");
        test(&mut served, &|name| format!("https://{name}:{port}/ok/x"));
    });
}

fn host(_: &Project) -> String {
    "host".to_owned()
}

/// A command with the places of both as its arguments.
fn fetched(served: &Served<'_>, of: &dyn Fn(&str) -> String, command: &[&str]) -> String {
    let places = [of(PASSED), of(OPENED)];
    let words: Vec<&str> =
        command.iter().copied().chain(places.iter().map(String::as_str)).collect();
    let ran = run(served, &json!({ "command": words }));
    let text = printed(&ran).to_owned();
    assert_eq!(ran["exec"]["ended"]["exit_code"], 0, "{ran}");
    text
}

/// Debian's, which has what Debian's packages bring.
const PYTHON: &str = "/usr/bin/python3";

const NODE: &str = "(async () => { for (const url of process.argv.slice(1)) \
    process.stdout.write(await (await fetch(url)).text()); })()";

const S_CLIENT: &str = "for url; do place=${url#https://}; place=${place%%/*}; \
    openssl s_client -connect $place -servername ${place%:*} -verify_return_error -brief \
    < /dev/null > /dev/null 2>&1 && echo GET /ok/x; done";

#[test]
fn clients_trust_both() {
    with_both(host, |served, of| {
        let both = "GET /ok/x\n".repeat(2);
        assert_eq!(fetched(served, of, &["curl", "-sS"]), both);
        // By what the system has, too, where no variable says so.
        let plain = "unset CURL_CA_BUNDLE SSL_CERT_FILE; curl -sS \"$@\"";
        assert_eq!(fetched(served, of, &["sh", "-c", plain, "sh"]), both);
        if is_installed("openssl", "openssl") {
            assert_eq!(fetched(served, of, &["sh", "-c", S_CLIENT, "sh"]), both);
        }
        for get in ["urllib.request.urlopen(url).read().decode()", "requests.get(url).text"] {
            let module = get.split_once(".get").map_or("urllib.request", |(module, _)| module);
            let program =
                format!("import sys, {module}\nfor url in sys.argv[1:]: print({get}, end='')");
            assert_eq!(fetched(served, of, &[PYTHON, "-c", &program]), both, "{module}");
        }
        if is_installed("node", "node-fetch") {
            assert_eq!(fetched(served, of, &["node", "-e", NODE]), both);
        }
        // The control: with nobody to trust neither is.
        let nobody =
            "for url; do curl -sS --cacert /dev/null --capath /dev/null $url; done 2>&1; true";
        let refused = fetched(served, of, &["sh", "-c", nobody, "sh"]);
        assert!(!refused.contains("GET"), "{refused}");
    });
}

const JAVA: &str = "
import java.net.URI;
import java.net.http.*;
public class T { public static void main(String[] places) throws Exception {
    var client = HttpClient.newHttpClient();
    for (var place : places) {
        var answer = client.send(HttpRequest.newBuilder(URI.create(place)).build(),
            HttpResponse.BodyHandlers.ofString());
        System.out.print(answer.body());
    }
} }";

#[test]
fn java_trusts_both() {
    if !is_installed("javac", "work-java") {
        return;
    }
    with_both(host, |served, of| {
        run(served, &json!({ "shell": format!("cat > T.java <<'END'\n{JAVA}\nEND") }));
        let script = "java T.java \"$@\" 2>&1";
        let fetched = fetched(served, of, &["sh", "-c", script, "sh"]);
        assert_eq!(fetched, "GET /ok/x\n".repeat(2));
    });
}

const STORE: &str = "opt/java/openjdk/lib/security/cacerts";
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";

/// An empty store, as Java has them; that nobody is trusted by it is of no matter.
fn image(project: &Project) -> PathBuf {
    let root = project.outside().join("rootfs");
    for place in [STORE, BUNDLE] {
        std::fs::create_dir_all(root.join(place).parent().unwrap()).unwrap();
        std::fs::write(root.join(place), "of the image\n").unwrap();
    }
    // With one certificate, whose bytes nobody looks at here.
    let mut store = vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1];
    store.extend([0, 0, 0, 2, 0, 4]);
    store.extend(b"kept\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x01x");
    store.extend([0; 20]);
    std::fs::write(root.join(STORE), store).unwrap();
    copy_programs(&root, &["sh", "cat", "cp", "grep", "mkdir", "rm"]);
    root
}

fn sh(served: &Served<'_>, script: &str) -> String {
    let answer = run(served, &json!({ "shell": script, "user": user(served) }));
    printed(&answer).to_owned()
}

/// Who may change the system of an image.
fn user(served: &Served<'_>) -> Value {
    match served.project().user {
        User::Root => json!("root"),
        User::Ordinary => json!("user"),
    }
}

#[test]
fn an_image_has_it_beside_its_own_and_stays_as_it_is() {
    let given = |project: &Project| image(project).to_str().unwrap().to_owned();
    with_both(given, |served, _| {
        let root = served.project().outside().join("rootfs");
        let before = [STORE, BUNDLE].map(|place| std::fs::read(root.join(place)).unwrap());
        let look = format!(
            "grep -c atoll-named-0 /{STORE}; grep -c atoll-own-0 /{STORE}; \
             grep -c BEGIN /{BUNDLE} $SSL_CERT_FILE"
        );
        let bundles = format!("/{BUNDLE}:2\n/run/atoll-trust/all.pem:2\n");
        assert_eq!(sh(served, &look), format!("1\n1\n{bundles}"));
        // Another runtime that is put in has it when the sandbox is started again, unless the
        // system cannot be changed here.
        let other = STORE.replace("openjdk", "other");
        let directory = Path::new(&other).parent().unwrap().display();
        let put = format!("mkdir -p /{directory} && cp /{STORE} /{other} && echo done");
        let is_put = sh(served, &format!("rm -rf /opt/java/gone; {put} 2>&1")) == "done\n";
        assert_eq!(served.ask("POST", "/v1/sandboxes/web/stop", None).status, 200);
        assert_eq!(served.ask("POST", "/v1/sandboxes/web/resume", None).status, 200);
        assert_eq!(sh(served, &look), format!("1\n1\n{bundles}"));
        if is_put {
            let found = sh(served, &format!("grep -c atoll-own-0 /{other}"));
            assert_eq!(found, "1\n");
        }
        let after = [STORE, BUNDLE].map(|place| std::fs::read(root.join(place)).unwrap());
        assert_eq!(before, after);
    });
}
