// The SDK against the description of the API: what one of them has and the other has not is named here.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import {
  apiError,
  Approvals,
  Archives,
  Atoll,
  AtollError,
  Audit,
  Exec,
  Execs,
  Files,
  Git,
  Images,
  Keys,
  type NetworkPolicy,
  Sandbox,
  Secrets,
  Session,
  Snapshot,
  Snapshots,
  Volumes,
} from "../src/index.ts";
import { ROOT } from "./serving.ts";

/** Operations without a verb. */
const LEFT_OUT = {
  attach_exec: "a WebSocket, which Node 20 has none of; `events`, `write`, `resize` and `signal` do the same",
  connect_port: "a WebSocket, likewise",
  get_metrics: "for what collects metrics",
  get_openapi: "for tools",
  ask_approval: "for `atoll apply`",
  create_pool: "pools are made by who runs the server, with `atoll pool`",
  list_pools: "likewise",
  get_pool: "likewise",
  set_pool: "likewise",
  delete_pool: "likewise",
  build_template: "templates are built by `atoll template`",
  list_builds: "likewise",
  get_build: "likewise",
  get_build_logs: "likewise",
  cancel_build: "likewise",
  get_build_files: "likewise",
  send_build_files: "likewise",
  list_templates: "likewise",
  get_template: "likewise",
  delete_template: "likewise",
};

/** What requests may have and the SDK never says. */
const UNSENT = {
  "get_or_create_sandbox.name": "it is in the path",
  "list_denials.within_ms": "the result of a command has those of its time",
  "write_archive.format": "uncompressed is faster where both are on one machine",
  "list_usage.format": "for spreadsheets: `atoll usage --csv`",
  "read_file.range": "`offset` and `length` say it",
  "follow_events.last-event-id": "`after` says it",
  "get_audit.last-event-id": "likewise",
  "follow_exec.last-event-id": "`stdout` and `stderr` say it",
};

// A document is what it is.
type Schema = any;

const DOCUMENT: Schema = JSON.parse(readFileSync(join(ROOT, "openapi/v1.json"), "utf8"));

interface Operation {
  id: string;
  method: string;
  path: RegExp;
  /** What a request may have, in its query, in a header or in its body. */
  fields: Set<string>;
  answer: Schema;
}

function resolve(schema: Schema): Schema {
  return schema?.$ref ? DOCUMENT.components.schemas[schema.$ref.split("/").at(-1)] : schema;
}

/** The fields of what an object may be. */
function fieldsOf(schema: Schema): string[] {
  const found = resolve(schema);
  return [...Object.keys(found?.properties ?? {}), ...(found?.oneOf ?? []).flatMap(fieldsOf)];
}

const OPERATIONS: Operation[] = Object.entries(DOCUMENT.paths).flatMap(([path, methods]: Schema) =>
  Object.entries(methods).map(([method, described]: Schema) => {
    const named = (described.parameters ?? [])
      .filter((one: Schema) => one.in !== "path")
      .map((one: Schema) => one.name.toLowerCase());
    const bodies = Object.values(described.requestBody?.content ?? {}).flatMap(({ schema }: Schema) =>
      fieldsOf(schema),
    );
    const good = Object.entries(described.responses).find(([status]) => status.startsWith("2"))?.[1] as Schema;
    return {
      id: described.operationId,
      method: method.toUpperCase(),
      path: new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`),
      fields: new Set([...named, ...bodies]),
      answer: good?.content?.["application/json"]?.schema,
    };
  }),
);

/** By which more is asked for, or no more. */
const TELLING: Record<string, string> = { ExecState: "ended", FileKind: "directory" };

/** Something that a schema allows, with no more than it must have. */
function example(schema: Schema): unknown {
  const name = schema.$ref?.split("/").at(-1);
  if (name in TELLING) return TELLING[name];
  const found = resolve(schema);
  if (found.oneOf) return example(found.oneOf.at(-1).type === "null" ? found.oneOf[0] : found.oneOf.at(-1));
  if (found.allOf) return Object.assign({}, ...found.allOf.map(example));
  if (found.enum) return found.enum[0];
  const type = Array.isArray(found.type) ? found.type[0] : found.type;
  if (type === "array") return [example(found.items)];
  if (type === "integer" || type === "number") return found.minimum ?? 1;
  if (type === "boolean") return false;
  // Base64 as well.
  if (type === "string") return found.example ?? "abcd";
  return Object.fromEntries((found.required ?? []).map((field: string) => [field, example(found.properties[field])]));
}

const STREAMS: Record<string, [event: string, schema: string]> = {
  follow_events: ["message", "Event"],
  follow_exec: ["ended", "Exec"],
  watch_files: ["changed", "Changed"],
  follow_approvals: ["approval", "Approval"],
  get_audit: ["message", "AuditRecord"],
  pull_image: ["image", "Image"],
};
const RAW: Record<string, Uint8Array> = {
  read_archive: new Uint8Array(1024),
  export_volume: new Uint8Array(1024),
  read_file: new Uint8Array(),
  read_exec_stdout: new Uint8Array(),
  read_exec_stderr: new Uint8Array(),
};

/** What each operation was asked with. */
const sent = new Map<string, Set<string>>();

/** Answers every request as it is described, and notes what it had. */
async function answer(url: URL, options: RequestInit): Promise<Response> {
  const operation = OPERATIONS.filter(({ method, path }) => method === options.method && path.test(url.pathname)).at(0);
  assert.ok(operation, `${options.method} ${url.pathname} is not described`);
  const { id } = operation;
  const headers = Object.keys(options.headers ?? {}).filter((name) => operation.fields.has(name));
  const json = await jsonOf(options);
  const fields = [...url.searchParams.keys(), ...headers, ...Object.keys(json)];
  for (const field of fields) assert.ok(operation.fields.has(field), `${id} has no ${field}`);
  sent.set(id, new Set([...(sent.get(id) ?? []), ...fields]));
  const stream = STREAMS[id];
  const isStream = (options.headers as Record<string, string>).accept === "text/event-stream";
  if (stream && (isStream || !operation.answer)) {
    const data = JSON.stringify(example({ $ref: `#/components/schemas/${stream[1]}` }));
    return new Response(`event: ${stream[0]}\ndata: ${data}\n\n`);
  }
  if (id in RAW) return new Response(Buffer.from(RAW[id]!));
  if (!operation.answer) return new Response(null, { status: 204 });
  const schema =
    id === "start_exec" && !url.searchParams.has("wait_ms") ? { $ref: "#/components/schemas/Exec" } : operation.answer;
  return new Response(JSON.stringify(example(schema)));
}

async function jsonOf(options: RequestInit): Promise<Record<string, unknown>> {
  const type = (options.headers as Record<string, string>)["content-type"] ?? "";
  if (!options.body || !(type.endsWith("json") || type.endsWith("create"))) return {};
  const text = await new Response(options.body).text();
  return JSON.parse(text.split("\n")[0]!);
}

/** A policy that says all that can be said. */
const POLICY: NetworkPolicy = {
  mode: "rules",
  presets: ["python"],
  allow: ["a"],
  ask: ["b"],
  deny: ["c"],
  explain: false,
  ipv6: false,
  proxyVariables: true,
  budgets: { requestsMax: 1, bytesMax: 1, requestsPerHostMax: 1, bytesPerHostMax: 1 },
  secrets: [
    { name: "A", at: ["https://a"], as: "bearer", env: "A" },
    { name: "B", file: "/run/secrets/b" },
  ],
};

/** Every verb about secrets, approvals, images, volumes and the audit log. */
async function oversee({ secrets, approvals, audit, images, volumes }: Atoll): Promise<void> {
  await secrets.set("A", "x");
  await secrets.set("A", Uint8Array.of(255));
  await secrets.list();
  await secrets.delete("A");
  await first(approvals.list({ status: "pending", sandbox: "web" }));
  await approvals.get("apr_1");
  await approvals.approve("apr_1", { scope: "always", expiresInMs: 1 });
  await approvals.deny("apr_1", { reason: "x" });
  await first(approvals.watch());
  await first(audit.list({ after: 1, sandbox: "web", kinds: ["lost"], pageCount: 1 }));
  await images.list();
  await images.get("a");
  await images.pull("a", { onProgress: () => {} });
  await images.delete("a");
  await images.prune({ all: true });
  await volumes.create("data", { labels: { a: "b" }, copyOf: "x", isReadOnly: true, limitBytes: 1, hostPath: "/x" });
  await volumes.setLimit("data", null);
  await first(volumes.list({ labels: { a: "b" }, pageCount: 1 }));
  await volumes.get("data");
  await first(volumes.export("data"));
  await volumes.delete("data");
  await first(audit.follow({ after: 1, sandbox: "web", kinds: ["lost"] }));
}

/** Every verb about snapshots. */
async function keepAndFork(client: Atoll, sandbox: Sandbox, making: object): Promise<void> {
  const snapshot = await sandbox.snapshot({ labels: { a: "b" }, deleteAfterMs: 1, keepLast: 3 });
  await snapshot.fork({ count: 2, name: "x", idempotencyKey: "k", ...making });
  await snapshot.diff({ since: "snp_1", limit: 5 });
  await snapshot.delete();
  await sandbox.fork({ count: 2, name: "x", snapshot: { deleteAfterMs: 1, keepLast: 3 }, ...making });
  await sandbox.restore(snapshot);
  await client.create({ snapshot });
  await first(client.snapshots.list({ sandbox: "web", labels: { a: "b" }, pageCount: 1 }));
  await sandbox.archive({ stop: true });
  await sandbox.delete({ keepArchive: true });
  await client.archives.create(snapshot);
  await client.archives.get("arc_1");
  await first(client.archives.list({ pageCount: 1 }));
  await client.archives.restore("arc_1");
  await client.archives.delete("arc_1");
  await client.snapshots.get("snp_1");
  await client.snapshots.delete("snp_1");
}

/** Takes so much of what goes on for ever. */
async function first<T>(all: AsyncGenerator<T>): Promise<T | undefined> {
  for await (const one of all) return one;
  return undefined;
}

/** Every verb with everything that it can be told. */
async function doEverything(client: Atoll, folder: string): Promise<void> {
  const making = {
    image: "host",
    imagePull: "always" as const,
    snapshot: "snp_1",
    template: "web@2",
    pool: "web",
    env: { A: "b" },
    labels: { a: "b" },
    limits: { memoryBytes: 1 },
    budget: { cpuUs: 1, memoryMibSeconds: 1, bytesSent: 1, bytesReceived: 1 },
    lifecycle: { leaseMs: 1, idleStopMs: 1, archiveAfterMs: 1, deleteAfterMs: 1, maxLifetimeMs: 1 },
    services: [{ name: "web", shell: "true" }],
    workspace: { path: "/x", git: { url: "/y" } },
    network: POLICY,
    execAsk: ["git push *"],
    volumes: [{ volume: "data", path: "/data", access: "shared" as const }],
  };
  const sandbox = await client.create({ name: "web", idempotencyKey: "k", ...making });
  await client.create({ files: folder });
  await client.getOrCreate("web", making);
  await client.get("web");
  await first(client.list({ states: ["running"], labels: { a: "b" }, pageCount: 1 }));
  await first(client.events({ after: 1 }));
  await client.capabilities();
  await client.budgets();
  await client.usage({ labels: { a: "b" }, pageCount: 1, cursor: "x" });
  await client.health();
  await client.keys.create("read", { note: "x" });
  await client.keys.list();
  await client.keys.revoke("key_1");
  await oversee(client);

  await keepAndFork(client, sandbox, { env: making.env, labels: making.labels });
  await sandbox.refresh();
  await sandbox.start();
  await sandbox.pause();
  await sandbox.resume();
  await sandbox.stop();
  await sandbox.kill();
  await sandbox.setLifecycle(making.lifecycle);
  await sandbox.setBudget(making.budget);
  await sandbox.network();
  await sandbox.setNetwork(POLICY);
  await sandbox.health();
  await sandbox.timeline();
  await sandbox.usage();
  await sandbox.denials({ cursor: 1 });
  await first(sandbox.events({ after: 1 }));
  await sandbox.ports();
  await sandbox.expose(1, { visibility: "public", expiresInMs: 1 });
  await sandbox.unexpose(1);
  await sandbox.waitForPort(1, { timeoutMs: 1 });
  await sandbox.waitForLog("exe_1", "x", { stream: "stdout" });
  await sandbox.waitForHttp(1, { path: "/", status: 200 });
  await sandbox.services();
  await sandbox.restartService("web");

  const starting = {
    id: "exe_1",
    session: "s",
    user: "user",
    directory: "/",
    env: {},
    timeoutMs: 1,
    keepBytes: 1,
    name: "x",
    approvalTimeoutMs: 1,
  } as const;
  await sandbox.exec("true", { ...starting, onDisconnect: "kill" });
  await sandbox.session("s").exec("true");
  await sandbox.session("s").start("true");
  await sandbox.terminal(["sh"], { rows: 1, columns: 1 });
  const exec = await sandbox.execs.start(["true"], { ...starting, stdin: "pipe" });
  await sandbox.execs.list();
  await sandbox.execs.get("exe_1");
  await exec.refresh();
  await exec.wait({ timeoutMs: 1 });
  await first(exec.events({ stdout: 1, stderr: 1, follow: false }));
  for (const stream of ["stdout", "stderr"] as const) await first(exec.logs({ stream, offset: 1, follow: true }));
  await exec.write("x");
  await exec.closeStdin();
  await exec.signal("TERM", { target: "group" });
  await exec.cancel({ signal: 15, graceMs: 1 });
  await exec.resize({ rows: 1, columns: 1 });
  await exec.forget();

  const { files, git } = sandbox;
  await files.read("/x", { offset: 1, length: 1 });
  await files.readText("/x");
  await files.write("/x", "y", { existing: "append", mode: "0644", makeParents: true });
  await files.list("/", { depth: 1, limit: 1 });
  await files.stat("/x", { follow: true });
  await files.exists("/x");
  await files.makeDirectory("/x", { mode: "0755", makeParents: true });
  await files.remove("/x", { recursive: true });
  await files.move("/x", "/y", { replace: true });
  await files.setMode("/x", "0644");
  await files.edit("/x", { old: "a", new: "b", expected: "any" });
  await files.glob("/", "*", { respectsIgnore: true, limit: 1 });
  await files.grep("/", "x", { isLiteral: true, ignoresCase: true, include: ["*"], respectsIgnore: true, limit: 1 });
  await first(files.watch("/", { recursive: true }));
  await files.upload(folder, "/x");
  await files.download("/x", join(folder, "back"));
  await git.clone("/x", "/y", { branch: "b", depth: 1 });
  await git.status("/y");
  await git.diff("/y", { staged: true, from: "a", to: "b" });
  await git.checkout("/y", "b", { create: true });
  await sandbox.delete();
}

test("every operation has a verb, and every verb asks for what is described", async () => {
  const folder = mkdtempSync(join(tmpdir(), "atoll-api-"));
  try {
    mkdirSync(join(folder, "in"));
    await doEverything(new Atoll({ host: "http://x", fetch: answer }), join(folder, "in"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const missing = OPERATIONS.map(({ id }) => id).filter((id) => !sent.has(id));
  assert.deepEqual(missing.sort(), Object.keys(LEFT_OUT).sort());
});

test("verbs can say all that requests may have", () => {
  const unsent = OPERATIONS.flatMap(({ id, fields }) => {
    const had = sent.get(id);
    return had ? [...fields].filter((field) => !had.has(field)).map((field) => `${id}.${field}`) : [];
  });
  // A follower comes back to where it was, and lists have further pages: scenarios do that.
  const elsewhere = ["list_sandboxes.cursor", "start_exec.shell", "start_exec.command", "list_approvals.cursor", "list_snapshots.after", "list_archives.after", "list_volumes.after"];
  assert.deepEqual(unsent.filter((one) => !elsewhere.includes(one)).sort(), Object.keys(UNSENT).sort());
});

test("every code has a class", () => {
  const codes: string[] = DOCUMENT.components.schemas.ErrorCode.enum;
  const classes = codes.map((code) => {
    const error = apiError({ ...(example({ $ref: "#/components/schemas/ApiError" }) as Schema), code });
    assert.equal(error.code, code);
    return error.name;
  });
  assert.equal(new Set(classes).size, codes.length);
  assert.ok(!classes.includes(AtollError.name));
});

test("the verbs of the table are there, and no others", () => {
  const camel = (name: string) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  const owners: Record<string, Schema> = {
    client: Atoll,
    sandbox: Sandbox,
    "`sandbox.execs`": Execs,
    command: Exec,
    "`sandbox.files`": Files,
    "`sandbox.git`": Git,
    "`client.keys`": Keys,
    "`client.snapshots`": Snapshots,
    snapshot: Snapshot,
    "`client.archives`": Archives,
    "`client.secrets`": Secrets,
    "`client.approvals`": Approvals,
    "`client.audit`": Audit,
    "`client.images`": Images,
    "`client.volumes`": Volumes,
  };
  const table = new Map<string, Set<string>>();
  let owner = "";
  for (const [, on, verbs] of readFileSync(join(ROOT, "sdk/README.md"), "utf8").matchAll(
    /^\| (.*?) ?\| (`\w.*) \|$/gm,
  )) {
    owner = on!.split(" (")[0]! || owner;
    const names = [...verbs!.matchAll(/`([a-z][\w]*)(?:\(\w+\)\.\w+)?`/g)].map((found) => camel(found[1]!));
    table.set(owner, new Set([...(table.get(owner) ?? []), ...names]));
  }
  assert.deepEqual(
    [...table.keys()].filter((one) => one in owners).sort(),
    Object.keys(owners).sort(),
  );
  for (const [on, kind] of Object.entries(owners)) {
    const methods = Object.entries(Object.getOwnPropertyDescriptors(kind.prototype)).filter(
      ([name, one]) => name !== "constructor" && typeof one.value === "function",
    );
    const own = methods.map(([name]) => name).filter((name) => !["close", "run", "finish", "feedAll"].includes(name));
    assert.deepEqual(own.sort(), [...table.get(on)!].sort(), on);
  }
  assert.equal(typeof Session.prototype.exec, "function");
});
