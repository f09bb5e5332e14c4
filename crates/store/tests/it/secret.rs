//! Secrets that several processes write, some of which are killed.

use super::support::as_root_and_user;
use atoll_store::secret::{SecretName, Secrets, Value};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FOLDER: &str = "STORE_TEST_SECRETS";

fn writer(folder: &Path, name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "secret::write_for_ever", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env("STORE_TEST_NAME", name)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn writers_that_are_killed_leave_every_secret_whole() {
    fn body() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let secrets = Secrets::of(folder.path().to_owned());
        let kept: SecretName = "KEPT".parse().unwrap();
        let mut last = 0;
        for round in 0_u64..20 {
            // The first round has them make the key at the same time.
            let mut writers = [writer(folder.path(), "A"), writer(folder.path(), "B")];
            for (n, writer) in writers.iter_mut().enumerate() {
                let mut output = BufReader::new(writer.stdout.take().unwrap());
                let mut line = String::new();
                while !line.ends_with("wrote 1\n") {
                    assert_ne!(output.read_line(&mut line).unwrap(), 0, "{n} ended: {line}");
                }
                writer.stdout = Some(output.into_inner());
            }
            secrets.set(&kept, &number(round), 0).unwrap();
            for mut writer in writers {
                writer.kill().unwrap();
                writer.wait().unwrap();
            }
            let all = secrets.all().unwrap();
            let names: Vec<&str> = all.iter().map(|secret| secret.name.as_str()).collect();
            assert_eq!(names, ["A", "B", "KEPT"]);
            assert_eq!(all[2].value, number(round), "what another wrote is not lost");
            for secret in &all[..2] {
                let text = std::str::from_utf8(secret.value.as_bytes()).unwrap();
                let count: u64 = text.trim_end_matches('x').parse().unwrap();
                assert!(count >= 1, "{text}");
                last = last.max(count);
            }
        }
        assert!(last >= 1);
    }
    as_root_and_user("secret::writers_that_are_killed_leave_every_secret_whole", body);
}

fn number(n: u64) -> Value {
    Value::new(format!("{n}{}", "x".repeat(4000)).into_bytes()).unwrap()
}

#[test]
#[ignore = "the inner half of writers_that_are_killed_leave_every_secret_whole"]
fn write_for_ever() {
    let secrets = Secrets::of(std::env::var_os(FOLDER).unwrap().into());
    let name: SecretName = std::env::var("STORE_TEST_NAME").unwrap().parse().unwrap();
    for n in 1_u64.. {
        secrets.set(&name, &number(n), 0).unwrap();
        if n == 1 {
            println!("wrote 1");
        }
    }
}
