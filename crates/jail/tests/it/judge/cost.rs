//! What the judge costs. Prints figures, asserts none: machines differ.

use super::harness::as_each_user;

const CREATE: &str = r#"
mkdir -p $T/d
python3 - <<'END'
import os, time
def measure(name, count, work):
    start = time.perf_counter()
    for i in range(count):
        work(i)
    print(f"{name}: {(time.perf_counter() - start) / count * 1e6:.1f} us")
def create(i):
    os.close(os.open(f"{d}/f{i}", os.O_CREAT | os.O_WRONLY))
d = os.environ["T"] + "/d"
count = 20000
measure("create, absolute", count, create)
os.chdir(d)
d = "."
measure("write-open", count, create)
measure("rename", count, lambda i: os.rename(f"f{i}", f"g{i}"))
measure("unlink", count, lambda i: os.unlink(f"g{i}"))
measure("create, relative", count, create)
measure("chmod", count, lambda i: os.chmod(f"f{i}", 0o600))
measure("read-open", count, lambda i: os.close(os.open(f"f{i}", os.O_RDONLY)))
os.umask(0o027)
measure("create after umask", count, lambda i: os.close(os.open(f"h{i}", os.O_CREAT | os.O_WRONLY)))
END
rm -rf $T/d
"#;

const JOBS: &str = r#"
cd $T
mkdir many; for i in $(seq 60); do mkdir many/$i; (cd many/$i; seq 60 | split -l 1 - f); done
time_it() { local s=$(date +%s%N); "${@:2}"; echo "$1: $(( ($(date +%s%N) - s) / 1000000 )) ms"; }
time_it "tar" tar cf t.tar many
mkdir x; time_it "untar" tar xf t.tar -C x
git_it() { cd many && git init -q . && git add . && git commit -qm x; cd ..; }
time_it "git init, add, commit of 3,600" git_it
rm -rf many t.tar x
"#;

#[test]
#[ignore = "prints figures"]
fn figures() {
    as_each_user(|sandbox| {
        for place in ["w", "/dev/shm"] {
            let place = if place == "w" { sandbox.workspace() } else { place.into() };
            sandbox.options.environment = vec![("T", place.display().to_string())];
            for script in [CREATE, JOBS] {
                let free = sandbox.control(script).succeeds().stdout;
                let judged = sandbox.run(script).succeeds().stdout;
                eprintln!("{}", place.display());
                for (free, judged) in free.lines().zip(judged.lines()) {
                    let cost = judged.rsplit(": ").next().unwrap();
                    eprintln!("  {free} -> {cost}");
                }
            }
        }
    });
}
