//! Node inside: packages from local archives, their commands and scripts, the
//! test runner, a watcher.

use super::{each, each_way};
use atoll_testkit::run::Project;
use std::io::Read as _;
use std::process::Stdio;

const DEPENDENCY: &str = r#"{ "name": "adder", "version": "1.0.0", "main": "index.js",
    "bin": { "adder": "cli.js" } }"#;
const APPLICATION: &str = r#"{ "name": "app", "version": "1.0.0",
    "scripts": { "pretest": "adder 1 2", "test": "node --test" },
    "dependencies": { "adder": "file:adder-1.0.0.tgz" } }"#;
const TESTS: &str = r#"
const test = require('node:test'), assert = require('node:assert'), http = require('node:http');
test('adds', () => assert.equal(require('adder')(1, 2), 3));
test('serves', async () => {
    const server = http.createServer((request, response) => response.end('hello'));
    await new Promise(ready => server.listen(0, '127.0.0.1', ready));
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/`);
    assert.equal(await answer.text(), 'hello');
    server.close();
});
test('works in threads', async () => {
    const { Worker } = require('node:worker_threads');
    const worker = new Worker('require("node:worker_threads").parentPort.postMessage(7)', { eval: true });
    assert.equal(await new Promise(done => worker.on('message', done)), 7);
});
"#;

/// Says that it watches, and ends when a file of that name appears.
const WATCHER: &str = "require('fs').watch('.', (event, name) => {
    if (name === 'signal') { console.log('seen'); process.exit(0); }
});
console.log('watching');
setTimeout(() => process.exit(3), 20000);";

/// An application with a lock file and one packed dependency, made outside.
fn with_application(project: &Project) {
    project.write("dep/package.json", DEPENDENCY);
    project.write("dep/index.js", "module.exports = (a, b) => a + b;\n");
    project.write("dep/cli.js", "#!/usr/bin/env node\nconsole.log('sum', require('./')(1, 2));\n");
    project.write("package.json", APPLICATION);
    project.write("test/all.test.js", TESTS);
    let made = project.bare_sh(
        "npm pack --silent ./dep && rm -r dep &&
         npm install --silent --offline --package-lock-only --no-audit --no-fund",
    );
    assert_eq!(made.code(), Some(0), "{}", made.text());
}

#[test]
fn packages_are_installed_and_tests_run() {
    each_way(|project, flags| {
        with_application(project);
        let script = "npm ci --offline --silent --no-audit --no-fund && npm test";
        let run = project.run_sh(flags, script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let text = run.stdout();
        assert!(text.contains("sum 3") && text.contains("pass 3"), "{}", run.text());
    });
}

#[test]
fn a_change_from_outside_is_seen_inside() {
    each(|project| {
        project.write("watch.js", WATCHER);
        let mut command = project.atoll(&["run", "--", "node", "watch.js"]);
        let mut run = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = run.stdout.take().unwrap();
        let mut text = vec![0; 9];
        output.read_exact(&mut text).unwrap();
        assert_eq!(text, b"watching\n");
        project.write("signal", "");
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!((rest.as_str(), run.wait().unwrap().code()), ("seen\n", Some(0)));
    });
}

#[test]
fn a_change_inside_is_seen_outside() {
    each(|project| {
        project.write("watch.js", WATCHER);
        let mut watcher =
            project.bare("node").arg("watch.js").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = watcher.stdout.take().unwrap();
        let mut text = vec![0; 9];
        output.read_exact(&mut text).unwrap();
        let run = project.run_sh(&[], "echo 1 > new && mv new signal");
        assert_eq!(run.code(), Some(0), "{}", run.text());
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        watcher.wait().unwrap();
        assert_eq!(rest, "seen\n");
    });
}
