//! Python inside: an environment of the project, packages from a folder, tests
//! that run in parallel.

use super::{each, each_way, is_installed};
use atoll_testkit::run::Project;

/// A package with a function in it; the build writes the wheel.
const PACKAGE: [(&str, &str); 2] = [
    (
        "lib/pyproject.toml",
        "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n\
         [project]\nname = 'adder'\nversion = '1.0'\n[tool.setuptools]\npackages = ['adder']\n",
    ),
    ("lib/adder/__init__.py", "def add(a, b): return a + b\n"),
];

const TESTS: &str = r#"
import adder, multiprocessing, pytest
from multiprocessing import shared_memory

def square(x): return x * x

@pytest.mark.parametrize("n", range(4))
def test_installed(n): assert adder.add(n, 1) == n + 1

def test_processes():
    with multiprocessing.Pool(2) as pool: assert pool.map(square, [1, 2, 3]) == [1, 4, 9]

def test_shared_memory():
    block = shared_memory.SharedMemory(create=True, size=1 << 24)
    block.buf[0] = 7
    other = shared_memory.SharedMemory(block.name)
    assert other.buf[0] == 7
    other.close(); block.close(); block.unlink()
"#;

/// Puts the package and its wheel into the project, made outside.
fn with_wheel(project: &Project) {
    for (path, text) in PACKAGE {
        project.write(path, text);
    }
    let make = "import zipfile; z = zipfile.ZipFile('wheels/adder-1.0-py3-none-any.whl', 'w')
i = 'adder-1.0.dist-info/'
z.writestr('adder/__init__.py', 'def add(a, b): return a + b\\n')
z.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: adder\\nVersion: 1.0\\n')
z.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
z.writestr(i + 'RECORD', ''.join(n + ',,\\n' for n in z.namelist()) + i + 'RECORD,,\\n')
z.close()";
    project.write("make.py", make);
    let made = project.bare_sh("mkdir wheels && python3 make.py");
    assert_eq!(made.code(), Some(0), "{}", made.text());
}

#[test]
fn packages_from_a_folder_and_parallel_tests() {
    each_way(|project, flags| {
        with_wheel(project);
        project.write("test_all.py", TESTS);
        let script = "python3 -m venv --system-site-packages --without-pip .venv &&
            pip --python .venv/bin/python install -q --no-compile --no-index --find-links wheels adder &&
            .venv/bin/python -m pytest -q -n 2 -p no:cacheprovider";
        let run = project.run_sh(flags, script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(run.stdout().contains("6 passed"), "{}", run.text());
    });
}

#[test]
fn a_whole_environment_and_a_wheel_are_made() {
    each(|project| {
        with_wheel(project);
        let script = "set -e; python3 -m venv .venv; . .venv/bin/activate; rm wheels/*
                /usr/bin/python3 -m pip wheel -q --no-index --no-build-isolation --no-deps -w wheels ./lib
                pip install -q --no-index --find-links wheels adder
                python -c 'import adder; print(adder.add(1, 2))'; pip cache dir";
        let run = project.run_sh(&[], script);
        assert_eq!(run.code(), Some(0), "{}", run.text());
        assert!(run.stdout().starts_with("3\n"), "{}", run.text());
        // It is the project's own and works outside too.
        let outside = project.bare_sh(".venv/bin/python -c 'import adder; print(adder.add(1, 2))'");
        assert_eq!(outside.stdout(), "3\n", "{}", outside.text());
    });
}

#[test]
fn uv_makes_an_environment_and_finds_its_cache_again() {
    const APPLICATION: &str = "[project]\nname = 'app'\nversion = '1.0'\n\
        dependencies = ['adder']\n[tool.uv]\nno-index = true\nfind-links = ['wheels']\npackage = false\n";
    if !is_installed("uv", "uv") {
        return;
    }
    each(|project| {
        with_wheel(project);
        project.write("pyproject.toml", APPLICATION);
        let sync =
            "rm -rf .venv uv.lock; uv sync --offline --no-managed-python --no-python-downloads &&
            uv run --offline --no-sync python -c 'import adder; print(adder.add(1, 2))'";
        for (mode, is_first) in [("live", true), ("live", false), ("review", false)] {
            let run = project.run_sh(&["--workspace", mode], sync);
            assert_eq!((run.code(), run.stdout().as_str()), (Some(0), "3\n"), "{}", run.text());
            // What is unpacked already is not prepared again.
            assert_eq!(run.stderr().contains("Prepared 1 package"), is_first, "{}", run.text());
            assert!(!run.stderr().contains("refused"), "{}", run.text());
        }
        // It is the project's own and works outside too.
        let outside = project.bare_sh(".venv/bin/python -c 'import adder; print(adder.add(1, 2))'");
        assert_eq!(outside.stdout(), "3\n", "{}", outside.text());
        assert!(!project.home().join(".cache/uv").exists(), "the user's own cache");
    });
}
