//! Servers with a socket in the project, in /tmp and in HOME: agents for keys, git's
//! cache of passwords, Python, Node.

use super::{each, each_way, same_as_bare};

#[test]
fn servers_and_their_clients_meet_wherever_the_socket_is() {
    const SCRIPT: &str = r#"
        set -e
        here=$(pwd); mkdir -p sub
        for place in a.sock sub/b.sock "$here/c.sock" "$(mktemp -d)/d.sock"; do
            python3 - "$place" <<'END'
import os, socket, sys, threading
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1])
server.listen()
def answer():
    peer, _ = server.accept()
    peer.sendall(peer.recv(9).upper())
    peer.close()
thread = threading.Thread(target=answer)
thread.start()
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(b"hello")
print(client.recv(9), server.getsockname() == sys.argv[1], oct(os.stat(sys.argv[1]).st_mode))
thread.join()
os.unlink(server.getsockname())
END
            node -e '
const net = require("node:net"), place = process.argv[1];
const server = net.createServer(peer => peer.end("node")).listen(place, () => {
    net.connect(place).on("data", data => { console.log(String(data)); server.close(); });
});
server.on("close", () => console.log(require("node:fs").existsSync(place)));' "$place"
            eval "$(ssh-agent -s -a "$place")" > /dev/null
            ssh-add -l || echo $?
            ssh-agent -k > /dev/null
        done
        ls -A . sub"#;
    each_way(|project, flags| {
        let run = same_as_bare(project, flags, SCRIPT);
        let said = run.stdout();
        assert_eq!(said.matches("b'HELLO' True 0o140755\nnode\nfalse\n").count(), 4, "{said}");
    });
}

#[test]
fn daemons_of_git_and_gpg_have_their_sockets_in_home() {
    const SCRIPT: &str = r#"
        set -e
        export GNUPGHOME=$(mktemp -d)
        gpg-connect-agent 'GETINFO version' /bye 2> /dev/null | tail -n 1
        gpgconf --kill gpg-agent
        export HOME=$(mktemp -d)
        printf 'protocol=https\nhost=example.org\nusername=u\npassword=p\n' | git credential-cache store
        printf 'protocol=https\nhost=example.org\n' | git credential-cache get
        git credential-cache exit"#;
    each(|project| {
        let run = same_as_bare(project, &[], SCRIPT);
        assert_eq!(
            run.stdout(),
            "OK\ncapability[]=authtype\nusername=u\npassword=p\n",
            "{}",
            run.text()
        );
    });
}

#[test]
fn a_socket_in_place_of_a_hook_or_a_policy_is_refused_and_told() {
    each(|project| {
        let made = project.bare_sh("git init -q .");
        assert_eq!(made.code(), Some(0), "{}", made.text());
        for place in [".git/hooks/pre-commit", "atoll.toml", ".vscode"] {
            let script = format!(
                "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"{place}\")'"
            );
            let run = project.run_sh(&["--json"], &script);
            assert_eq!(run.code(), Some(1), "{}", run.text());
            let refusal = &run.json()["denials"][0]["refusal"];
            let said = (refusal["operation"].as_str(), refusal["exact"].as_bool());
            assert_eq!(said, (Some("bind"), Some(true)), "{}", run.text());
            assert!(!project.root().join(place).exists(), "{place}");
            // The control: outside it can be made.
            let bare = project.bare_sh(&format!("{script} && rm {place}"));
            assert_eq!(bare.code(), Some(0), "{}", bare.text());
        }
    });
}
