//! What does not work through a gateway, and what is said of it.

use super::ways::Ways;
use super::{allowing, each, run_sh, told};
use atoll_testkit::internet::Internet;
use atoll_testkit::skip::is_installed;

#[test]
fn who_comes_by_ssh_is_led_to_https() {
    if !is_installed("ssh", "ssh") {
        return;
    }
    each(|project| {
        let internet = Internet::new();
        internet.name("git.test", &["127.0.0.1"]);
        let script = "ssh -o BatchMode=yes -o ConnectTimeout=20 git@git.test git-upload-pack r";
        let run = run_sh(&internet, project, &allowing(&["git.test"]), script);
        assert_eq!(run.code(), Some(255), "{}", run.text());
        let lines = told(&run);
        assert_eq!(lines.len(), 1, "{}", run.text());
        assert!(lines[0].contains("[port-not-allowed]"), "{}", run.text());
        assert!(lines[0].contains("https://git.test/"), "{}", run.text());
        // The control: with a rule the server is connected to.
        let port = internet.serve(drop);
        let rules = [format!("tcp://git.test:{port}"), format!("127.0.0.1/32:{port}")];
        let script = script.replace("ssh ", &format!("ssh -p {port} "));
        let run = run_sh(&internet, project, &allowing(&[&rules[0], &rules[1]]), &script);
        assert_eq!(told(&run), Vec::<String>::new(), "{}", run.text());
        assert_eq!(internet.questions().first().map(String::as_str), Some("git.test"));
    });
}

/// It has authorities of its own, and tries QUIC where it is led to it.
#[test]
fn chromium_shows_a_page_of_a_host() {
    if !is_installed("chromium", "work-browser") {
        return;
    }
    each(|project| {
        let ways = Ways::with(|request| {
            let page = format!(
                "<body><script>document.body.innerText = '{} ' + 1</script></body>",
                request.path
            );
            let more = vec![
                ("content-type", "text/html".to_owned()),
                (
                    "alt-svc",
                    format!("h3=\":{}\"", request.all("host")[0].split(':').nth(1).unwrap()),
                ),
            ];
            (200, more, page.into_bytes())
        });
        let script = "for url in $1 $2; do chromium --headless --no-sandbox --disable-gpu \
            --enable-quic --ignore-certificate-errors --dump-dom $url 2> /dev/null; done";
        let run = ways.run_sh(project, "/ok/page", script);
        assert_eq!(run.stdout().matches(">/ok/page 1<").count(), 2, "{}", run.text());
    });
}
