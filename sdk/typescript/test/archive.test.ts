// Archives that come from sandboxes, which are not trusted.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { Archive } from "../src/local/archive.ts";
import { pack } from "../src/local/pack.ts";
import { unpack } from "../src/local/unpack.ts";

interface Entry {
  name: string;
  /** `0` a file, `1` a hard link, `2` a link, `5` a directory, `6` a pipe. */
  type: string;
  /** Content, or where it leads. */
  what: string;
}

const file = (name: string, what = "x"): Entry => ({ name, type: "0", what });
const link = (name: string, what: string): Entry => ({ name, type: "2", what });
const hardLink = (name: string, what: string): Entry => ({ name, type: "1", what });

function header(name: string, type: string, size: number, target = ""): Buffer {
  const block = Buffer.alloc(512);
  block.write(name, 0);
  block.write("0006777\0", 100);
  block.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
  block.write("00000000017\0", 136);
  block.write("        ", 148);
  block.write(type, 156);
  block.write(target, 157);
  block.write("ustar\u000000", 257);
  const sum = block.reduce((all, byte) => all + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

function filled(content: Buffer): Buffer {
  return Buffer.concat([content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

function archive(...entries: Entry[]): Buffer {
  const blocks = entries.map(({ name, type, what }) => {
    const content = type === "0" ? Buffer.from(what) : Buffer.alloc(0);
    return Buffer.concat([header(name, type, content.length, type === "0" ? "" : what), filled(content)]);
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

/** A body that comes in pieces of a size. */
async function* pieces(bytes: Buffer, size = 700): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Unpacks as names say; the control of what is refused. */
async function naive(bytes: Buffer, directory: string): Promise<void> {
  const found = new Archive(pieces(bytes));
  for (let member = await found.next(); member; member = await found.next()) {
    const path = join(directory, member.name.toString());
    mkdirSync(dirname(path), { recursive: true });
    if (member.kind === "symlink") symlinkSync(member.target, path);
    else if (member.kind === "hardlink") linkSync(join(directory, member.target.toString()), path);
    else if (member.kind === "file") {
      const content: Uint8Array[] = [];
      for await (const piece of found.content()) content.push(piece);
      writeFileSync(path, Buffer.concat(content));
    }
  }
}

const isWritten = (outside: string) => existsSync(join(outside, "made"));
const isRead = (_: string, inside: string) =>
  (readdirSync(inside, { recursive: true }) as string[]).some((name) => {
    const path = join(inside, name);
    try {
      return statSync(path).isFile() && readFileSync(path, "utf8") === "secret";
    } catch {
      // It leads nowhere, or in circles; of a long circle the kernel says now that and now not.
      return false;
    }
  });

const ESCAPES: Record<string, [(outside: string, inside: string) => boolean, Entry[]]> = {
  "by dots": [isWritten, [file("../outside/made")]],
  "by dots further in": [isWritten, [file("a/../../outside/made")]],
  "through a link": [isWritten, [link("link", "../outside"), file("link/made")]],
  "through a link over another": [isWritten, [link("a", "."), link("a/link", "../outside"), file("link/made")]],
  "a link out": [isRead, [link("link", "../outside/secret")]],
  "a hard link out": [isRead, [hardLink("link", "../outside/secret")]],
  "a hard link through a link": [isRead, [link("to", "../outside"), hardLink("link", "to/secret")]],
  "a chain of links": [isRead, [link("a/b/up", "../.."), link("link", "a/b/up/../outside/secret")]],
  "a chain of links, made backwards": [isRead, [link("link", "a/b/up/../outside/secret"), link("a/b/up", "../..")]],
};

let folder = "";
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "atoll-tar-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

for (const [name, [reached, entries]] of Object.entries(ESCAPES)) {
  test(`nothing reaches out: ${name}`, async () => {
    for (const run of ["control", "ours"]) {
      const [outside, inside] = [join(folder, run, "outside"), join(folder, run, "inside")];
      mkdirSync(outside, { recursive: true });
      mkdirSync(inside);
      writeFileSync(join(outside, "secret"), "secret");
      if (run === "control") {
        await naive(archive(...entries), inside);
        assert.ok(reached(outside, inside), "the archive is harmless");
      } else {
        const leftOut = await unpack(pieces(archive(...entries)), inside);
        assert.ok(!reached(outside, inside));
        assert.deepEqual(readdirSync(outside), ["secret"]);
        assert.ok(leftOut.length > 0 || name.startsWith("through"));
      }
    }
  });
}

test("absolute names and devices are left out", async () => {
  const made = join(folder, "made");
  const entries = [file(made), { name: "pipe", type: "6", what: "" }, link("link", "/")];
  assert.deepEqual(await unpack(pieces(archive(...entries)), join(folder, "in")), [made, "pipe", "link"]);
  assert.deepEqual(readdirSync(join(folder, "in")), []);
});

test("a directory that is there is not left by a link in it", async () => {
  const inside = join(folder, "in");
  mkdirSync(inside);
  symlinkSync(folder, join(inside, "link"));
  assert.deepEqual(await unpack(pieces(archive(file("link/made"))), inside), ["link/made"]);
  assert.ok(!existsSync(join(folder, "made")));
  // A link to it would lead out as well.
  writeFileSync(join(folder, "kept"), "kept");
  assert.deepEqual(await unpack(pieces(archive(link("other", "link/kept"))), inside), ["other"]);
  // A link as the last part is replaced, not written through.
  symlinkSync(join(folder, "kept"), join(inside, "file"));
  assert.deepEqual(await unpack(pieces(archive(file("file", "new"))), inside), []);
  assert.equal(readFileSync(join(folder, "kept"), "utf8"), "kept");
  assert.equal(readFileSync(join(inside, "file"), "utf8"), "new");
});

test("a directory is not replaced by what is none", async () => {
  const entries = [file("a/b"), file("a", "y"), link("a", "b"), file("a/b/c", "")];
  assert.deepEqual(await unpack(pieces(archive(...entries)), folder), ["a", "a/b/c", "a"]);
  assert.equal(readFileSync(join(folder, "a/b"), "utf8"), "x");
});

test("a second name is the same file, and nobody else may write", async () => {
  const entries = [file("a"), hardLink("d/b", "a"), hardLink("c", "none"), hardLink("a", "a")];
  assert.deepEqual(await unpack(pieces(archive(...entries)), folder), ["c"]);
  assert.equal(statSync(join(folder, "d/b")).ino, statSync(join(folder, "a")).ino);
  assert.equal(statSync(join(folder, "a")).mode & 0o7777, 0o755);
});

test("what is packed is unpacked, however it is cut", async () => {
  const [source, target] = [join(folder, "source"), join(folder, "target")];
  const long = `${"long-".repeat(30)}ü`;
  mkdirSync(join(source, "bin/empty"), { recursive: true });
  mkdirSync(join(source, long));
  writeFileSync(join(source, "bin/run"), "#!/bin/sh\n", { mode: 0o755 });
  writeFileSync(join(source, long, long), Buffer.alloc(300_000, "0123456"));
  writeFileSync(Buffer.concat([Buffer.from(`${source}/no-text-`), Buffer.of(0xff)]), "raw");
  symlinkSync(`../${long}/${long}`, join(source, "bin/link"));
  symlinkSync(".", join(source, "here"));
  utimesSync(join(source, "bin/run"), 1_000_000_000, 1_000_000_000);
  const packed: Uint8Array[] = [];
  for await (const piece of pack(source)) packed.push(piece);
  const whole = Buffer.concat(packed);
  for (const size of [37, 511, 512, 100_000]) {
    rmSync(target, { recursive: true, force: true });
    assert.deepEqual(await unpack(pieces(whole, size), target), []);
    assert.equal(execFileSync("diff", ["-r", "--no-dereference", source, target], { encoding: "utf8" }), "");
    assert.equal(statSync(join(target, "bin/run")).mode & 0o7777, 0o755);
    assert.equal(statSync(join(target, "bin/run")).mtimeMs, 1_000_000_000_000);
    assert.ok(lstatSync(join(target, "here")).isSymbolicLink());
  }
  // Another program says the same.
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target);
  execFileSync("tar", ["-xf", "-", "-C", target, "--no-same-owner"], { input: whole });
  assert.equal(execFileSync("diff", ["-r", "--no-dereference", source, target], { encoding: "utf8" }), "");
  // And ours reads what another one writes, in each of its formats.
  for (const format of ["gnu", "pax", "ustar"]) {
    rmSync(target, { recursive: true, force: true });
    const names = format === "ustar" ? ["bin/run", "here"] : ["."];
    const theirs = execFileSync("tar", [`--format=${format}`, "-cf", "-", "-C", source, ...names], {
      maxBuffer: 2 ** 24,
    });
    assert.deepEqual(await unpack(pieces(theirs), target), []);
    if (format !== "ustar")
      assert.equal(execFileSync("diff", ["-r", "--no-dereference", source, target], { encoding: "utf8" }), "");
  }
});

test("what is no archive, or not all of one, is an error", async () => {
  const whole = archive(file("a", "content"));
  const wrong: [Buffer, RegExp][] = [
    [Buffer.alloc(512, "x"), /no tar archive|number that is none/],
    [whole.subarray(0, 600), /ends before its end/],
    [whole.subarray(0, 1024), /ends before its end/],
    [Buffer.concat([header("pax", "x", 2 ** 21), whole]), /longer than is taken/],
    [Buffer.concat([header("pax", "x", 20), filled(Buffer.from("99 path=somewhere\n12")), whole]), /damaged/],
  ];
  for (const [bytes, expected] of wrong) await assert.rejects(unpack(pieces(bytes), join(folder, "in")), expected);
});
