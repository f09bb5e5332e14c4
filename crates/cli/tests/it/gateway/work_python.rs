//! Python's clients, some of which bring certificates of their own.

use super::each;
use super::ways::Ways;
use atoll_testkit::internet::{Request, Response};
use atoll_testkit::run::Project;
use atoll_testkit::skip;
use std::path::Path;
use std::process::{Command, Stdio};

/// Debian's, which has what Debian's packages bring.
const PYTHON: &str = "/usr/bin/python3";

const CLIENTS: [(&str, &str); 4] = [
    ("urllib.request", "urllib.request.urlopen(url).read().decode()"),
    ("requests", "requests.get(url).text"),
    ("httpx", "httpx.get(url).text"),
    ("httpx, h2", "httpx.Client(http2=True).get(url).text"),
];

#[test]
fn python_clients_trust_both() {
    let has = |module: &str| {
        let mut python = Command::new(PYTHON);
        python.args(["-c", &format!("import {module}")]).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    };
    let clients: Vec<_> = CLIENTS.iter().filter(|(module, _)| has(module)).collect();
    if clients.len() < CLIENTS.len() {
        skip::skip("python-clients", "Debian's python3 has no requests, httpx or h2");
    }
    each(|project| {
        let ways = Ways::new();
        for (module, get) in &clients {
            let program =
                format!("import sys, {module}\nfor url in sys.argv[1:]: print({get}, end='')");
            let [passed, opened] = ways.urls("/ok/x");
            let run = ways.run(project, [PYTHON, "-c", &program, &passed, &opened]);
            assert_eq!(run.stdout(), "GET /ok/x\n".repeat(2), "{module}: {}", run.text());
        }
    });
}

const WHEEL: &str = "adder-1.0-py3-none-any.whl";

/// Makes a wheel, outside.
fn wheel(project: &Project) -> Vec<u8> {
    let make = format!(
        "import zipfile; z = zipfile.ZipFile('{WHEEL}', 'w'); i = 'adder-1.0.dist-info/'
z.writestr('adder/__init__.py', 'def add(a, b): return a + b\\n')
z.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: adder\\nVersion: 1.0\\n')
z.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
z.writestr(i + 'RECORD', ''.join(n + ',,\\n' for n in z.namelist()) + i + 'RECORD,,\\n')
z.close()"
    );
    assert!(project.bare(PYTHON).args(["-c", &make]).status().unwrap().success());
    std::fs::read(project.root().join(WHEEL)).unwrap()
}

/// An index of packages with one of them (PEP 503).
fn index(wheel: &[u8], request: &Request) -> Response {
    let page = format!("<!DOCTYPE html><a href=\"/ok/files/{WHEEL}\">{WHEEL}</a>\n");
    let kind = |kind: &str| vec![("content-type", kind.to_owned())];
    match request.path.as_str() {
        "/ok/simple/adder/" => (200, kind("text/html"), page.into_bytes()),
        path if path.ends_with(WHEEL) => (200, kind("application/zip"), wheel.to_vec()),
        _ => (404, Vec::new(), Vec::new()),
    }
}

#[test]
fn packages_are_installed_from_an_index() {
    each(|project| {
        let wheel = wheel(project);
        let ways = Ways::with(move |request| index(&wheel, request));
        let uv = ["/usr/bin/uv", "/usr/local/bin/uv"].into_iter().find(|at| Path::new(at).exists());
        if uv.is_none() {
            skip::skip("uv", "uv is not installed");
        }
        // By the variables, by a file of pip's own settings, and by uv.
        let script = format!(
            "set -e; pip='{PYTHON} -m pip install -q --disable-pip-version-check --no-cache-dir --no-compile'
            $pip --target a --index-url $1 adder; $pip --target b --index-url $2 adder
            printf '[global]\\ncert = /etc/ssl/certs/ca-certificates.crt\\n' > pip.conf
            env -u PIP_CERT PIP_CONFIG_FILE=pip.conf $pip --target c --index-url $2 adder
            uv={uv}; test -z \"$uv\" || for n in 1 2; do
                $uv pip install -q --no-cache --python {PYTHON} --target d$n --index-url $1 adder; shift; done
            ls -d */adder | tr '\\n' ' '",
            uv = uv.unwrap_or_default()
        );
        let run = ways.run_sh(project, "/ok/simple", &script);
        let of_uv = if uv.is_some() { "d1/adder d2/adder " } else { "" };
        let expected = format!("a/adder b/adder c/adder {of_uv}");
        assert_eq!(run.stdout(), expected, "{}", run.text());
    });
}
