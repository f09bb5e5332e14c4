"""A small internet on loopback for the tests of both SDKs: one name, and a site that has it.

`python3 internet.py FOLDER` writes the certificate of an authority to `FOLDER/authority.pem`, prints where names are
looked up and where the site listens as one line of JSON, and serves until its standard input ends. The site is
`https://api.example.com`; it answers with the path that it was asked for and the SHA-256 of the `authorization` that came
along. Other names are not known.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path

NAME = "api.example.com"


def certify(folder: Path) -> None:
    """Makes the authority, and a certificate of the site that it vouches for."""
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl(folder, "req", "-x509", *new, "-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=of tests")
    openssl(folder, "req", *new, "-keyout", "site.key", "-out", "site.csr", "-subj", f"/CN={NAME}")
    (folder / "site.ext").write_text(f"subjectAltName=DNS:{NAME}\nbasicConstraints=CA:FALSE\n")
    by = ["-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", "site.ext"]
    openssl(folder, "x509", "-req", "-in", "site.csr", *by, "-out", "site.pem")


def openssl(folder: Path, *words: str) -> None:
    """Runs openssl in a folder."""
    subprocess.run(["openssl", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)


class Site(http.server.BaseHTTPRequestHandler):
    """The site."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Says what was asked."""
        digest = hashlib.sha256(self.headers.get("authorization", "").encode()).hexdigest()
        body = f"{self.path} {digest}\n".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Listener(http.server.ThreadingHTTPServer):
    """Serves each connection in a thread of its own, handshake included."""

    def __init__(self, folder: Path) -> None:
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(folder / "site.pem", folder / "site.key")
        super().__init__(("127.0.0.1", 0), Site)

    def finish_request(self, request: object, client_address: object) -> None:
        """One connection."""
        assert isinstance(request, socket.socket)
        try:
            with self._tls.wrap_socket(request, server_side=True) as secured:
                super().finish_request(secured, client_address)
        except OSError:
            pass


def answer(query: bytes) -> bytes:
    """The answer to a question of DNS (RFC 1035, section 4): an address for the one name, and none for others."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace").lower())
        at += 1 + query[at]
    end = at + 5
    is_known, is_a = ".".join(labels) == NAME, query[at + 1 : at + 3] == b"\0\1"
    flags, count = (b"\x81\x80" if is_known else b"\x81\x83"), is_known and is_a
    head = query[:2] + flags + b"\0\1" + (b"\0\1" if count else b"\0\0") + b"\0\0\0\0"
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("127.0.0.1")
    return head + query[12:end] + (record if count else b"")


def look_up(names: socket.socket) -> None:
    """Answers questions."""
    while True:
        query, source = names.recvfrom(4096)
        names.sendto(answer(query), source)


def main() -> None:
    """Serves until its standard input ends."""
    folder = Path(sys.argv[1])
    certify(folder)
    names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    names.bind(("127.0.0.1", 0))
    site = Listener(folder)
    for work in (lambda: look_up(names), site.serve_forever):
        threading.Thread(target=work, daemon=True).start()
    print(json.dumps({"dns": f"127.0.0.1:{names.getsockname()[1]}", "port": site.server_port}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
