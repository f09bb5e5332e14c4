//! cargo, from registries.

use super::each;
use super::ways::{OPENED, PASSED, Ways};
use crate::run::work_rust::run_with;
use atoll_testkit::internet::{Request, Response};
use atoll_testkit::run::Project;
use sha2::{Digest as _, Sha256};
use std::path::Path;

const APPLICATION: &str = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
    [dependencies]\n\
    a = { package = \"adder\", version = \"1\", registry = \"passed\" }\n\
    b = { package = \"adder\", version = \"1\", registry = \"opened\" }\n[workspace]\n";

/// Makes an archive of a crate, outside.
fn packed(project: &Project) -> Vec<u8> {
    let manifest = "[package]\nname = \"adder\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
    project.write("adder-1.0.0/Cargo.toml", manifest);
    project.write("adder-1.0.0/src/lib.rs", "pub fn add(a: u32, b: u32) -> u32 { a + b }\n");
    let made = project.bare_sh("tar czf adder.crate adder-1.0.0 && rm -r adder-1.0.0");
    assert_eq!(made.code(), Some(0), "{}", made.text());
    std::fs::read(project.root().join("adder.crate")).unwrap()
}

/// A sparse registry with one crate.
fn registry(packed: &[u8], request: &Request) -> Response {
    let host = request.all("host")[0];
    let sum: String = Sha256::digest(packed).iter().map(|byte| format!("{byte:02x}")).collect();
    let body = match request.path.as_str() {
        "/ok/config.json" => format!("{{\"dl\":\"https://{host}/ok/dl\"}}").into_bytes(),
        "/ok/ad/de/adder" => format!(
            "{{\"name\":\"adder\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{sum}\",\
             \"features\":{{}},\"yanked\":false}}\n"
        )
        .into_bytes(),
        "/ok/dl/adder/1.0.0/download" => packed.to_vec(),
        _ => return (404, Vec::new(), Vec::new()),
    };
    (200, Vec::new(), body)
}

#[test]
fn crates_are_fetched_from_registries() {
    each(|project| {
        let packed = packed(project);
        project.write("Cargo.toml", APPLICATION);
        project.write("src/main.rs", "fn main() { println!(\"{}\", a::add(1, b::add(2, 3))); }\n");
        let ways = Ways::with(move |request| registry(&packed, request));
        let roots = project.outside().join("authority.pem");
        std::fs::write(&roots, ways.internet.certificate()).unwrap();
        let index = |name| format!("sparse+{}", ways.url(name, "/ok/"));
        let script = format!(
            "export CARGO_REGISTRIES_PASSED_INDEX={} CARGO_REGISTRIES_OPENED_INDEX={}
            cargo run -q",
            index(PASSED),
            index(OPENED)
        );
        let dns = ways.internet.dns();
        let variables = [("ATOLL_DNS", Path::new(&dns)), ("SSL_CERT_FILE", &roots)];
        let run = run_with(project, &ways.flags(), &script, &variables);
        assert_eq!(run.stdout(), "6\n", "{}", run.text());
    });
}
