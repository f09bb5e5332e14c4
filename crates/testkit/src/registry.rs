//! A registry of images for tests, which can be told to misbehave.

use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a registry does wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It breaks off after so many bytes of an answer.
    Truncate(usize),
    /// It gives other bytes, of the same number.
    Change,
    /// It gives more bytes than it should.
    Lengthen,
    /// It answers with this status, and these headers.
    Status(u16, &'static str),
    /// It accepts the request and says nothing.
    Silent,
    /// It does not know ranges.
    NoRanges,
}

/// A registry on loopback. It lives as long as the test.
#[derive(Debug, Clone)]
pub struct Registry {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Documents and layers, by the end of their path.
    content: HashMap<String, Vec<u8>>,
    /// What goes wrong where, and how often.
    faults: Vec<(String, Fault, usize)>,
    /// Name and password, and the token that is given for them.
    login: Option<(String, String)>,
    asked: Vec<String>,
}

const TOKEN: &str = "a-token-of-a-test";

impl Registry {
    /// Begins to serve.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("a listener has an address");
        let registry = Self { address, state: Arc::default() };
        let serving = registry.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        registry
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Host and port.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// The name of an image of it, such as `tools:1`.
    #[must_use]
    pub fn name(&self, image: &str) -> String {
        format!("http://{}/{image}", self.address)
    }

    /// Gives out a blob, and says what it is in JSON.
    pub fn blob(&self, bytes: &[u8], media_type: &str) -> String {
        let digest = digest(bytes);
        self.state().content.insert(format!("blobs/{digest}"), bytes.to_vec());
        format!(r#"{{"mediaType":"{media_type}","digest":"{digest}","size":{}}}"#, bytes.len())
    }

    /// Gives out a manifest under a tag and under its digest, which is given back.
    pub fn manifest(&self, tag: &str, text: &str) -> String {
        let digest = digest(text.as_bytes());
        for selector in [tag, &digest] {
            let path = format!("manifests/{selector}");
            self.state().content.insert(path, text.as_bytes().to_vec());
        }
        digest
    }

    /// Gives out an image of these layers, for this machine, and gives the digest of its manifest.
    pub fn image(&self, tag: &str, layers: &[&[u8]], settings: &str) -> String {
        self.image_for(tag, std::env::consts::ARCH, layers, settings)
    }

    /// The same for another machine.
    pub fn image_for(&self, tag: &str, arch: &str, layers: &[&[u8]], settings: &str) -> String {
        let architecture = match arch {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let ids: Vec<String> = layers.iter().map(|layer| format!("{:?}", digest(layer))).collect();
        let config = format!(
            r#"{{"os":"linux","architecture":"{architecture}","config":{settings},"rootfs":{{"type":"layers","diff_ids":[{}]}}}}"#,
            ids.join(",")
        );
        let config = self.blob(config.as_bytes(), "application/vnd.oci.image.config.v1+json");
        let kind = "application/vnd.oci.image.layer.v1.tar";
        let layers: Vec<String> = layers.iter().map(|layer| self.blob(layer, kind)).collect();
        let layers = layers.join(",");
        self.manifest(
            tag,
            &format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layers}]}}"#),
        )
    }

    /// Has something go wrong where a path ends or begins so, so many times.
    pub fn fail(&self, path: &str, fault: Fault, times: usize) {
        self.state().faults.push((path.to_owned(), fault, times));
    }

    /// Has nothing go wrong any more.
    pub fn recover(&self) {
        self.state().faults.clear();
    }

    /// Gives images only to who has a token, and the token to who knows this.
    pub fn require(&self, user: &str, password: &str) {
        self.state().login = Some((user.to_owned(), password.to_owned()));
    }

    /// What was asked for so far.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.state().asked.clone()
    }

    /// Forgets what was asked for.
    pub fn forget(&self) {
        self.state().asked.clear();
    }

    fn serve(&self, stream: TcpStream) {
        let Ok(copy) = stream.try_clone() else { return };
        let mut lines = BufReader::new(copy);
        let mut request = String::new();
        if lines.read_line(&mut request).is_err() {
            return;
        }
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            match lines.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => {}
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        self.state().asked.push(path.clone());
        // That the other side is gone is its own affair.
        self.answer(stream, &path, &headers).ok();
    }

    fn fault(&self, path: &str) -> Option<Fault> {
        let mut state = self.state();
        let (_, fault, times) = state
            .faults
            .iter_mut()
            .find(|(part, _, times)| *times > 0 && path.contains(part.as_str()))?;
        *times -= 1;
        Some(fault.clone())
    }

    fn answer(
        &self,
        mut stream: TcpStream,
        path: &str,
        headers: &HashMap<String, String>,
    ) -> std::io::Result<()> {
        let fault = self.fault(path);
        if let Some(Fault::Status(status, more)) = fault {
            return write!(
                stream,
                "HTTP/1.1 {status} No\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n"
            );
        }
        if fault == Some(Fault::Silent) {
            let mut sink = Vec::new();
            return stream.read_to_end(&mut sink).map(drop);
        }
        let said = headers.get("authorization").map(String::as_str);
        let login = self.state().login.clone();
        if let Some((user, password)) = login {
            if path.starts_with("/token") {
                let wanted = format!("Basic {}", base64(&format!("{user}:{password}")));
                let (status, body) = match said == Some(&wanted) {
                    true => (200, format!(r#"{{"token":"{TOKEN}"}}"#)),
                    false => (401, String::new()),
                };
                return write!(
                    stream,
                    "HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
            if said != Some(&format!("Bearer {TOKEN}")) {
                let realm = format!("http://{}/token", self.address);
                return write!(
                    stream,
                    "HTTP/1.1 401 No\r\nWWW-Authenticate: Bearer realm=\"{realm}\",service=\"test\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
        }
        let found = {
            let state = self.state();
            state
                .content
                .iter()
                .find(|(end, _)| path.ends_with(end.as_str()))
                .map(|(_, c)| c.clone())
        };
        let Some(mut content) = found else {
            return write!(
                stream,
                "HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
        };
        let range = headers.get("range").and_then(|range| {
            range.strip_prefix("bytes=")?.strip_suffix('-')?.parse::<usize>().ok()
        });
        let mut head = "200 OK".to_owned();
        if let Some(from) =
            range.filter(|from| *from < content.len() && fault != Some(Fault::NoRanges))
        {
            let (end, length) = (content.len() - 1, content.len());
            content.drain(..from);
            head = format!("206 Part\r\nContent-Range: bytes {from}-{end}/{length}");
        }
        match fault {
            Some(Fault::Change) => {
                let middle = content.len() / 2;
                content[middle] ^= 1;
            }
            Some(Fault::Lengthen) => content.push(0),
            _ => {}
        }
        write!(
            stream,
            "HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            content.len()
        )?;
        if let Some(Fault::Truncate(after)) = fault {
            content.truncate(after);
        }
        stream.write_all(&content)
    }
}

fn digest(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in Sha256::digest(bytes) {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
    }
    text
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
