// What scenarios cannot say, since it is about this machine or about this SDK alone.

import assert from "node:assert/strict";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { findEndpoint } from "../src/endpoint.ts";
import {
  Atoll,
  ConnectionError,
  type Fetch,
  NotFoundError,
  OutputDroppedError,
  StillRunningError,
} from "../src/index.ts";
import { Transport } from "../src/transport.ts";
import { Server } from "./serving.ts";

let server: Server;
let client: Atoll;
let folder = "";
before(async () => {
  server = (await Server.start("user"))!;
  client = new Atoll(server.host);
  folder = mkdtempSync(join(tmpdir(), "atoll-here-"));
});
after(async () => {
  await client.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

for (const fetched of [undefined, fetch]) {
  test(`directories are copied in and out${fetched ? " by fetch" : ""}`, async () => {
    const options = fetched
      ? { host: `http://127.0.0.1:${server.port}`, apiKey: server.key, fetch: fetched }
      : server.host;
    await using by = new Atoll(options);
    await using sandbox = await by.create();
    const base = mkdtempSync(join(folder, "copies-"));
    const source = join(base, "source");
    mkdirSync(join(source, "bin"), { recursive: true });
    writeFileSync(join(source, "bin/run"), "#!/bin/sh\necho ran\n", { mode: 0o755 });
    symlinkSync("bin/run", join(source, "run"));
    await sandbox.files.upload(source, "/home/user/copy");
    assert.equal((await sandbox.exec("copy/run", { directory: "/home/user" })).stdout, "ran\n");
    await sandbox.exec("ln -s /etc/passwd copy/out && echo made > copy/made", { directory: "/home/user", check: true });
    assert.deepEqual(await sandbox.files.download("/home/user/copy", join(base, "back")), ["out"]);
    assert.deepEqual(await sandbox.files.download("/home/user/copy/made", join(base, "file")), []);
    assert.equal(readFileSync(join(base, "file"), "utf8"), "made\n");
    assert.deepEqual(readdirSync(join(base, "back")).sort(), ["bin", "made", "run"]);
    assert.equal(realpathSync(join(base, "back/run")), join(realpathSync(base), "back/bin/run"));
    assert.equal(statSync(join(base, "back/bin/run")).mode & 0o777, 0o755);
    chmodSync(join(base, "file"), 0o600);
    await sandbox.files.upload(join(base, "file"), "/home/user/new/file");
    assert.equal((await sandbox.files.stat("/home/user/new/file")).mode, "0600");
  });
}

test("a sandbox begins with files of this machine", async () => {
  mkdirSync(join(folder, "files/in"), { recursive: true });
  writeFileSync(join(folder, "files/in/file"), "x".repeat(1_000_000));
  await using sandbox = await client.create({ files: join(folder, "files"), workspace: { path: "/home/user/app" } });
  assert.equal(sandbox.info.workspace, "/home/user/app");
  assert.equal((await sandbox.files.stat("/home/user/app/in/file")).bytes, 1_000_000);
  const named = await client.getOrCreate("with-files", { files: join(folder, "files") });
  assert.ok(await named.files.exists(`${named.info.workspace}/in/file`));
  await named.delete();
});

test("a sandbox tells how it is", async () => {
  await using sandbox = await client.create();
  const { status, guest } = await sandbox.health();
  assert.equal(status, "ok");
  assert.ok(guest && guest.runningExecs === 0 && guest.descriptors.used < guest.descriptors.limit);
});

test("output is told as it comes, and input is read", async () => {
  await using sandbox = await client.create();
  const told: string[] = [];
  const options = {
    input: "grüße",
    onStdout: (text: string) => told.push(text),
    onStderr: (text: string) => told.push(`!${text}`),
  };
  const result = await sandbox.exec("cat; echo no >&2", options);
  assert.equal(result.stdout, "grüße");
  assert.deepEqual(told.sort(), ["!no\n", "grüße"]);
  // One that reads nothing does not mind.
  assert.equal((await sandbox.exec(["true"], { input: "x".repeat(1_000_000) })).exitCode, 0);
});

test("a wait is over before the command is, and bytes that are gone are told", async () => {
  await using sandbox = await client.create();
  const sleeper = await sandbox.execs.start(["sleep", "1000"]);
  await assert.rejects(sleeper.wait({ timeoutMs: 50 }), StillRunningError);
  const loud = await sandbox.execs.start("seq 1000000", { keepBytes: 65_536 });
  assert.ok((await loud.wait()).stdout.includes("bytes are not shown"));
  await assert.rejects(
    async () => {
      for await (const _ of loud.logs());
    },
    (error) => error instanceof OutputDroppedError && error.from < error.to && error.to < 6_888_896,
  );
});

test("more than one answer holds is there all the same", async () => {
  await using sandbox = await client.create();
  const result = await sandbox.exec("head -c 6000000 /dev/zero | tr '\\0' a", { keepBytes: 16 * 1024 * 1024 });
  assert.equal(result.stdoutBytes.length, 6_000_000);
  assert.equal(result.stdoutDroppedBytes, 0);
});

test("a command ends with its request where that is wanted", async () => {
  await using sandbox = await client.create();
  const stop = new AbortController();
  const running = sandbox.exec("sleep 1000", { onDisconnect: "kill", name: "bound", signal: stop.signal });
  const ended = assert.rejects(running, /enough/);
  const seen = async () => (await sandbox.execs.list()).find(({ info }) => info.name === "bound");
  let bound = await seen();
  while (!bound) bound = await seen();
  stop.abort(new Error("enough"));
  await ended;
  assert.equal((await bound.wait({ timeoutMs: 10_000 })).cause, "disconnected");
});

test("many are served at once", async () => {
  await using sandbox = await client.create();
  const results = await Promise.all(Array.from({ length: 20 }, (_, number) => sandbox.exec(["echo", String(number)])));
  assert.deepEqual(
    results.map(({ stdout }) => stdout.trim()),
    Array.from({ length: 20 }, (_, number) => String(number)),
  );
});

test("a sandbox that is gone is no file that is missing", async () => {
  const sandbox = await client.create();
  assert.equal(await sandbox.files.exists("/nowhere"), false);
  await sandbox.delete();
  await assert.rejects(sandbox.files.exists("/nowhere"), NotFoundError);
  await sandbox[Symbol.asyncDispose]();
});

test("who does not answer is told apart from who is not there", async () => {
  const silent = createServer(() => {});
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const { port } = silent.address() as AddressInfo;
  const told = ({ host, ...way }: { host: string; fetch?: Fetch }) =>
    new Transport(findEndpoint(host, undefined), 50, way.fetch).open({ method: "GET", path: "/", silenceMs: 500 }).then(
      () => "an answer",
      (error: unknown) => (error instanceof ConnectionError ? `${error.kind} ${error.tookEffect}` : String(error)),
    );
  const host = `http://127.0.0.1:${port}`;
  try {
    for (const way of [{}, { fetch }]) {
      assert.equal(await told({ host, ...way }), "silent unknown");
      const stop = new AbortController();
      const hanging = new Atoll({ host, ...way }).create({ signal: stop.signal });
      stop.abort(new Error("enough"));
      await assert.rejects(hanging, /enough/);
    }
  } finally {
    silent.close();
    silent.closeAllConnections();
  }
  for (const way of [{}, { fetch }]) assert.equal(await told({ host, ...way }), "unreachable no");
  assert.equal(await told({ host: `unix://${folder}/none` }), "unreachable no");
});

test("a browser finds nothing of Node in what it loads first", () => {
  const root = fileURLToPath(new URL("../src/", import.meta.url));
  const seen = new Set<string>();
  const visit = (name: string): void => {
    if (seen.has(name)) return;
    seen.add(name);
    for (const [, wanted] of readFileSync(join(root, name), "utf8").matchAll(
      /^(?:import|export)\b[^;]*? from "([^"]+)"/gm,
    )) {
      assert.ok(wanted!.startsWith("."), `${name} loads ${wanted}`);
      visit(join(name, "..", wanted!));
    }
  };
  visit("index.js");
  assert.ok(seen.has("channel/fetch.js") && !seen.has("channel/node.js"));
});
