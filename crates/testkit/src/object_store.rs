//! A store that speaks S3, for tests: moto, which is installed below the target directory by the first
//! test that wants it.

use crate::process::wait_until;
use crate::skip::skip;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// All that it is made of, with versions.
const REQUIREMENTS: &str = include_str!("../../../tests/object-store.txt");

/// A server on loopback with one bucket, which ends with this.
#[derive(Debug)]
pub struct ObjectServer {
    server: Child,
    address: SocketAddr,
}

/// The bucket that it has.
pub const BUCKET: &str = "archives";

impl ObjectServer {
    /// Starts it, or skips `test` where it cannot be installed.
    ///
    /// # Panics
    /// If it was installed and does not start.
    #[must_use]
    pub fn start(test: &str) -> Option<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/object-store");
        if let Err(reason) = install(&folder) {
            skip(test, &reason);
            return None;
        }
        let address = free();
        let mut command = Command::new(folder.join("bin/python"));
        command.args(["-B", "-m", "moto.server", "-H", "127.0.0.1", "-p"]);
        command.arg(address.port().to_string()).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = command.spawn().expect("it was installed a moment ago");
        let started = Self { server, address };
        wait_until("the object store answers", || TcpStream::connect(address).is_ok());
        assert!(started.ask("PUT", &format!("/{BUCKET}")).contains(" 200 "), "no bucket");
        Some(started)
    }

    /// Where it is.
    #[must_use]
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The whole answer to a request.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, \
             SignedHeaders=host, Signature=0\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Names of all objects.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let listed = self.ask("GET", &format!("/{BUCKET}?list-type=2"));
        let keys = listed.split("<Key>").skip(1);
        keys.filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned())).collect()
    }

    /// How many uploads in parts are neither finished nor given up.
    #[must_use]
    pub fn open_uploads(&self) -> usize {
        self.ask("GET", &format!("/{BUCKET}?uploads")).matches("<UploadId>").count()
    }
}

impl Drop for ObjectServer {
    fn drop(&mut self) {
        // One that ended by itself has failed the test already.
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

/// A port that nobody has.
fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    listener.local_addr().expect("a listener has an address")
}

fn install(folder: &Path) -> Result<(), String> {
    let made_of = folder.join("made-of.txt");
    if std::fs::read_to_string(&made_of).is_ok_and(|had| had == REQUIREMENTS) {
        return Ok(());
    }
    let run = |command: &mut Command| {
        let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        if done.status.success() { Ok(()) } else { Err("it cannot be installed".to_owned()) }
    };
    run(Command::new("/usr/bin/python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let list: PathBuf = folder.join("requirements.txt");
    std::fs::write(&list, REQUIREMENTS).map_err(|error| error.to_string())?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    run(pip.arg(&list))?;
    std::fs::write(&made_of, REQUIREMENTS).map_err(|error| error.to_string())
}
