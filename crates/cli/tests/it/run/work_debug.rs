//! Debuggers, tracers and sanitizers: off by default, said so, and on by a flag.

use super::{each, each_way};
use atoll_testkit::skip::is_installed;

const PROGRAM: &str = "#include <stdio.h>\nint twice(int x) { return 2 * x; }\n\
    int main(void) { printf(\"%d\\n\", twice(21)); return 0; }\n";

const LEAK: &str = "#include <stdlib.h>\n\
    int main(void) { void *volatile p = malloc(123); p = 0; return p != 0; }\n";

#[test]
fn a_tracer_works_when_it_is_allowed_and_is_told_how_when_not() {
    each_way(|project, flags| {
        let trace = |more: &[&str]| {
            let mut all = flags.to_vec();
            all.extend(more);
            project.run_sh(&all, "strace -f -o trace sh -c 'exit 7'; echo $?; grep -c execve trace")
        };
        let run = trace(&["--allow", "ptrace"]);
        assert!(run.stdout().starts_with("7\n"), "{}", run.text());
        assert!(!run.stderr().contains("refused"), "{}", run.text());
        let run = trace(&[]);
        assert!(!run.stdout().starts_with("7\n"), "{}", run.text());
        assert!(run.stderr().contains("--allow ptrace"), "{}", run.text());
    });
}

#[test]
fn a_debugger_stops_and_attaches() {
    if !is_installed("gdb", "work-gdb") {
        return;
    }
    each(|project| {
        project.write("p.c", PROGRAM);
        let script =
            "cc -g p.c -o p && gdb -q -batch -ex 'break twice' -ex run -ex 'print x' p 2>&1
            sleep 60 & gdb -q -batch -p $! 2>&1 | grep -c detached; kill $!";
        let run = project.run_sh(&["--allow", "ptrace"], script);
        assert!(run.stdout().contains("$1 = 21\n"), "{}", run.text());
        assert!(run.stdout().ends_with("1\n"), "{}", run.text());
    });
}

#[test]
fn a_leak_is_found_when_tracing_is_allowed() {
    each(|project| {
        project.write("l.c", LEAK);
        let script = "cc -fsanitize=address l.c -o l && ./l";
        let run = project.run_sh(&["--allow", "ptrace"], script);
        assert!(run.stderr().contains("123 byte(s) leaked"), "{}", run.text());
        let run = project.run_sh(&[], "./l");
        assert!(run.stderr().contains("--allow ptrace"), "{}", run.text());
        // Everything but leaks is found without.
        let run = project.run_sh(&["--env", "ASAN_OPTIONS=detect_leaks=0"], "./l");
        assert_eq!(run.code(), Some(0), "{}", run.text());
    });
}

#[test]
fn addresses_can_be_fixed() {
    each(|project| {
        project.write("p.c", PROGRAM);
        let run = project.run_sh(&[], "cc p.c -o p && setarch -R ./p");
        assert_eq!(run.stdout(), "42\n", "{}", run.text());
    });
}

#[test]
fn java_compiles_and_runs() {
    if !is_installed("javac", "work-java") {
        return;
    }
    const SOURCE: &str = "public class T { public static void main(String[] a) throws Exception {
        var server = new java.net.ServerSocket(0, 1, java.net.InetAddress.getLoopbackAddress());
        var thread = new Thread(() -> { try { server.accept().getOutputStream().write(42); }
            catch (java.io.IOException e) { throw new RuntimeException(e); } });
        thread.start();
        var client = new java.net.Socket(server.getInetAddress(), server.getLocalPort());
        System.out.println(client.getInputStream().read() + \" \" + System.getProperty(\"user.home\"));
    } }";
    each(|project| {
        project.write("T.java", SOURCE);
        let run = project.run_sh(&[], "javac T.java && java T");
        assert_eq!(run.stdout(), format!("42 {}\n", project.home().display()), "{}", run.text());
    });
}
