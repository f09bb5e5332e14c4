//! Node, which has certificates built in.

use super::each;
use super::ways::Ways;
use atoll_testkit::internet::{Request, Response};
use atoll_testkit::run::Project;
use atoll_testkit::skip::is_installed;

const CLIENTS: &str = "
const https = require('https');
const get = url => new Promise((done, fail) => https.get(url, answer => {
    let text = ''; answer.on('data', piece => text += piece).on('end', () => done(text));
}).on('error', fail));
(async () => { for (const url of process.argv.slice(1)) {
    process.stdout.write(await (await fetch(url)).text());
    process.stdout.write(await (await fetch(url, { method: 'POST', body: 'x' })).text());
    process.stdout.write(await get(url));
} })();
";

#[test]
fn fetch_and_https_trust_both() {
    if !is_installed("node", "node-fetch") {
        return;
    }
    each(|project| {
        let ways = Ways::new();
        let [passed, opened] = ways.urls("/ok/x");
        let run = ways.run(project, ["node", "-e", CLIENTS, &passed, &opened]);
        let expected = "GET /ok/x\nPOST /ok/x\nGET /ok/x\n".repeat(2);
        assert_eq!(run.stdout(), expected, "{}", run.text());
    });
}

/// Makes an archive of a package, outside.
fn package(project: &Project) -> Vec<u8> {
    let manifest = r#"{ "name": "adder", "version": "1.0.0" }"#;
    project.write("package/package.json", manifest);
    project.write("package/index.js", "module.exports = (a, b) => a + b;\n");
    let made = project.bare_sh("tar czf adder.tgz package && rm -r package");
    assert_eq!(made.code(), Some(0), "{}", made.text());
    std::fs::read(project.root().join("adder.tgz")).unwrap()
}

/// A registry with one package.
fn registry(archive: &[u8], request: &Request) -> Response {
    let host = request.all("host")[0];
    let about = format!(
        r#"{{ "name": "adder", "dist-tags": {{ "latest": "1.0.0" }}, "versions": {{ "1.0.0": {{
            "name": "adder", "version": "1.0.0",
            "dist": {{ "tarball": "https://{host}/ok/adder.tgz" }} }} }} }}"#
    );
    let kind = |kind: &str| vec![("content-type", kind.to_owned())];
    match request.path.as_str() {
        "/ok/adder" => (200, kind("application/json"), about.into_bytes()),
        "/ok/adder.tgz" => (200, kind("application/octet-stream"), archive.to_vec()),
        _ => (404, Vec::new(), Vec::new()),
    }
}

#[test]
fn packages_are_installed_from_a_registry() {
    if !is_installed("npm", "npm") {
        return;
    }
    each(|project| {
        let archive = package(project);
        let ways = Ways::with(move |request| registry(&archive, request));
        // With settings of npm's own, which it puts before variables, too.
        let script = "set -e; install='--silent --no-audit --no-fund --fetch-retries=0'
            mkdir a b; cd a; echo '{}' > package.json
            npm install $install --cache=/tmp/1 --registry=$1 adder; cd ../b; echo '{}' > package.json
            npm install $install --cache=/tmp/2 --registry=$2 adder; rm -r node_modules
            echo cafile=/etc/ssl/certs/ca-certificates.crt > .npmrc
            npm ci $install --cache=/tmp/3 --registry=$2
            node -p 'require(\"adder\")(1, 2) + require(\"../a/node_modules/adder\")(3, 4)'";
        let run = ways.run_sh(project, "/ok/", script);
        assert_eq!(run.stdout(), "10\n", "{}", run.text());
    });
}
