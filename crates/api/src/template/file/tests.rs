use super::*;
use crate::exec::User;
use crate::service::Ready;
use proptest::prelude::*;

const WHOLE: &str = r#"
name = "web"
image = "python:3.12-slim"
pull = "never"
keep = 3

[[steps]]
env = { PIP_NO_INDEX = "1" }

[[steps]]
copy = { from = "app", to = "/home/user/app" }

[[steps]]
workdir = "/home/user/app"

[[steps]]
user = "root"

[[steps]]
run = """
pip install \
  --find-links wheels .
"""

[start]
shell = "python3 -m web"
ready = { port = 8000 }
ready_timeout = "10s"

[network]
allow = ["pypi.org"]

[limits]
memory = "1GiB"
cpus = 1.5
"#;

fn errors(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_whole_file() {
    let file = parse(WHOLE.as_bytes()).unwrap();
    let copy = FileCopy { from: "app".into(), to: "/home/user/app".into(), line: 11 };
    assert_eq!(file.copies(), &[(1, copy)].into());
    assert_eq!(file.request(&BTreeMap::new()), Err(1));
    let files = FilesDigest::from_bytes([7; 32]);
    let request = file.request(&[(1, files)].into()).unwrap();
    assert_eq!((request.name.as_str(), request.keep, request.steps.len()), ("web", Some(3), 5));
    let to = "/home/user/app".to_owned();
    assert_eq!(request.steps[1], TemplateStep::Copy(TemplateCopy { files, to }));
    assert_eq!(request.steps[3], TemplateStep::User(User::Root));
    let start = request.start.unwrap();
    assert_eq!((start.ready, start.ready_timeout_ms), (Some(Ready::Port(8000)), Some(10_000)));
    assert_eq!(request.network.unwrap().allow, ["pypi.org"]);
    assert_eq!(
        (request.limits.memory_bytes, request.limits.cpus_milli),
        (Some(1 << 30), Some(1500))
    );
}

#[test]
fn every_problem_is_told_with_its_line_and_what_is_near() {
    let text = "nam = 'web'\nimage = 'a'\ntemplate = 'b@0'\n[[steps]]\nrum = 'x'\n[[steps]]\nrun = 1\n\
                [[steps]]\ncopy = { from = '../x', to = 'y' }\n[[steps]]\nrun = 'a'\nuser = 'root'\n\
                [[steps]]\n[start]\nready = { port = 70000 }\n[limits]\nmemory = 'much'\n";
    insta::assert_snapshot!(errors(text), @r#"
    line 1: unknown key "nam" in the file; did you mean "name"?
    line 1: name is absent: write the template's name
    line 3: template stands beside image: write one of them
    line 3: template: "b@0" cannot name a template: what is behind the @ is no version, as 3 is one; write 1 to 63 lower-case letters, digits, dashes and underscores, beginning and ending with a letter or digit
    line 5: unknown key "rum" in steps, number 1; did you mean "run"?
    line 7: step.run must be a string, not a whole number
    line 9: step.copy.from: "../x" is not below the directory of this file
    line 12: step.user stands beside another key: write a step for each
    line 13: a step is empty: write one of run, copy, env, workdir, user
    line 14: start.shell is absent
    line 15: start.ready.port is 70000, and must be 1 to 65535
    line 17: limits.memory: "much" is not a size; write bytes or a unit, as in "512MiB" or "4GiB"
    "#);
}

#[test]
fn what_is_no_toml_is_told_where_it_ends_to_be_one() {
    assert!(errors("name = 'a'\nb = = 1\n").starts_with("line 2: "));
    assert_eq!(parse(b"name = 'a'\n\xff").unwrap_err().0[0].line, 2);
    let long = vec![b'\n'; TEMPLATE_FILE_BYTES_MAX + 1];
    assert!(parse(&long).unwrap_err().to_string().contains("more than"));
    assert!(errors("name = 'a'\nkeep = 0\n").contains("keep is 0"));
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in "(name = 'a'\n)?([a-z\\[\\]{}=\"'.,0-9 \n]{0,80})") {
        let lines = text.split('\n').count();
        if let Err(errors) = parse(text.as_bytes()) {
            prop_assert!(!errors.0.is_empty());
            for error in errors.0 {
                prop_assert!((1..=lines).contains(&(error.line as usize)), "{error}");
            }
        }
    }

    #[test]
    fn a_key_that_is_changed_is_refused(at in 0..WHOLE.len(), letter in "[a-z]") {
        // Whatever is written instead, it is read as what it says or refused, and never panics.
        prop_assume!(WHOLE.is_char_boundary(at));
        let mut text = WHOLE.to_owned();
        text.replace_range(at..=at, &letter);
        if let Ok(file) = parse(text.as_bytes()) {
            prop_assert!(file.copies().len() <= 1);
        }
    }
}
