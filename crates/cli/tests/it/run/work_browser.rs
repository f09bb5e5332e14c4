//! A headless browser: it has a sandbox of its own.

use super::each_way;
use atoll_testkit::run::User;
use atoll_testkit::skip::is_installed;

const PAGE: &str = "<body><script>document.body.innerText = 'sum ' + (1 + 2)</script></body>";

/// Flags and what must come of them, by user and workspace.
#[test]
fn chromium_shows_a_page() {
    if !is_installed("chromium", "work-browser") {
        return;
    }
    each_way(|project, flags| {
        let page = project.write("page.html", PAGE);
        let show = |more: &[&str], browser: &str| {
            let mut all = flags.to_vec();
            all.extend(more);
            let script = format!(
                "chromium --headless {browser} --disable-gpu --dump-dom file://{} 2> /dev/null",
                page.display()
            );
            project.run_sh(&all, &script)
        };
        // Our sandbox is around it.
        let run = show(&[], "--no-sandbox");
        assert!(run.stdout().contains("sum 3"), "{}", run.text());
        // With its own; it refuses to run as root.
        if project.user == User::Ordinary {
            let run = show(&["--allow", "nested-userns"], "");
            assert!(run.stdout().contains("sum 3"), "{}", run.text());
        }
        if project.user == User::Ordinary {
            let run = show(&[], "");
            assert!(run.stderr().contains("--allow nested-userns"), "{}", run.text());
        }
    });
}
