// Secrets, approvals and the audit log, with a server of which each answer is written down here.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import {
  ApprovalDeniedError,
  ApprovalExpiredError,
  ApprovalPendingError,
  Atoll,
  AtollError,
  errorOf,
  NotApprovedError,
  RefusedByPolicyError,
  Sandbox,
} from "../src/index.ts";

const AT = "2026-11-30T01:10:00Z";
const VALUE = "sk-a-value-that-nobody-sees";

type Answer = (url: URL, options: RequestInit) => Promise<Response>;

const client = (fetch: Answer) => new Atoll({ host: "http://x", fetch });
const json = (value: unknown, status = 200) => new Response(JSON.stringify(value), { status });

/** How a command is refused that has to be approved. */
function refused(details: object): unknown {
  const error = { code: "refused_by_policy", message: "m", took_effect: "no", retry: { kind: "safe" }, next_step: "n" };
  return { error: { ...error, details } };
}

/** An approval as it is written. */
function approval(id: string, status: string, more: object = {}): unknown {
  const decided = status === "pending" ? null : { at: AT, by: "uid:0", ...more };
  const times = { asked_at: AT, last_asked_at: AT, pending_until: AT };
  const named = { id, sandbox_id: "sbx_1", what: { kind: "exec", argv: ["true"] }, rule: "r", name: "n" };
  return { ...named, status, count: 1, ...times, decided };
}

/** A stream that breaks off. */
function broken(...events: [string, unknown][]): Response {
  const text = events.map(([kind, data]) => `event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  const bytes = new TextEncoder().encode(text);
  const pull = (controller: ReadableStreamDefaultController) => controller.error(new Error("broken"));
  const start = (controller: ReadableStreamDefaultController) => controller.enqueue(bytes);
  return new Response(new ReadableStream({ start, pull }, { highWaterMark: 0 }));
}

test("why a command was not approved is a class of its own", () => {
  const classes = { pending: ApprovalPendingError, denied: ApprovalDeniedError, expired: ApprovalExpiredError };
  for (const [word, kind] of Object.entries(classes)) {
    const error = errorOf(403, JSON.stringify(refused({ reason: `approval-${word}`, approval_id: "apr_1" })));
    assert.equal(error.constructor, kind);
    assert.ok(error instanceof NotApprovedError && error instanceof RefusedByPolicyError);
    assert.equal(error.approvalId, "apr_1");
  }
  assert.equal(errorOf(403, JSON.stringify(refused({}))).constructor, RefusedByPolicyError);
});

test("a command is asked for again for as long as is wanted", async () => {
  const asked: string[] = [];
  const reasons = ["approval-pending", "approval-pending", "approval-denied"];
  const answer: Answer = async (_, options) => {
    if (options.method === "GET") return json({ id: "sbx_1", state: "running" });
    asked.push(((await new Response(options.body).json()) as { id: string }).id);
    return json(refused({ reason: reasons[Math.min(asked.length, reasons.length) - 1] }), 403);
  };
  const sandbox: Sandbox = await client(answer).get("sbx_1");
  await assert.rejects(sandbox.execs.start("true"), ApprovalPendingError);
  assert.equal(asked.length, 1, "nothing was said about waiting");
  asked.length = 0;
  await assert.rejects(sandbox.exec("true", { approvalTimeoutMs: 60_000 }), ApprovalDeniedError);
  assert.equal(asked.length, 3);
  assert.equal(new Set(asked).size, 1, "so that it never runs twice");
});

test("a watcher learns what changed while its connection was broken", async () => {
  const old = approval("apr_old", "approved", { scope: "always" });
  const lists = [
    [old, approval("apr_a", "pending")],
    [
      old,
      approval("apr_a", "approved", { scope: "once" }),
      approval("apr_b", "expired"),
      approval("apr_c", "pending"),
    ],
    [approval("apr_a", "approved", { scope: "once", is_used: true })],
  ];
  const streams: [string, unknown][][] = [
    [["approval", approval("apr_a", "pending")]],
    // Told again as it was, late; what was found meanwhile is newer.
    [
      ["approval", approval("apr_a", "pending")],
      ["approval", approval("apr_c", "pending")],
      ["news", {}],
    ],
    [],
  ];
  const answer: Answer = async (url) =>
    url.pathname === "/v1/approvals" ? json({ approvals: lists.shift() }) : broken(...streams.shift()!);
  const told: unknown[] = [];
  for await (const one of client(answer).approvals.watch()) {
    told.push([one.id, one.status, one.decided?.isUsed ?? false]);
    if (told.length === 5) break;
  }
  assert.deepEqual(told, [
    ["apr_a", "pending", false],
    ["apr_a", "approved", false],
    ["apr_b", "expired", false],
    ["apr_c", "pending", false],
    ["apr_a", "approved", true],
  ]);
});

test("the log is followed from where its stream began", async () => {
  const asked: (string | null)[] = [];
  const record = JSON.stringify({ seq: 8, at: AT, what: { kind: "server_stopped" }, hash: "00" });
  const bodies = ["id: 7\n\n", `id: 7\n\nid: 8\ndata: ${record}\n\n`];
  const answer: Answer = async (url) => {
    asked.push(url.searchParams.get("after"));
    return new Response(bodies.shift());
  };
  for await (const { seq, what } of client(answer).audit.follow()) {
    assert.deepEqual([seq, what.kind], [8, "server_stopped"]);
    break;
  }
  assert.deepEqual(asked, [null, "7"]);
});

for (const value of [VALUE, new TextEncoder().encode(VALUE)]) {
  test(`the value of a secret, as ${typeof value}, is in nothing that is shown`, async () => {
    const bodies: string[] = [];
    const answer: Answer = async (_, options) => {
      bodies.push(await new Response(options.body).text());
      if (bodies.length === 1) return json({ name: "A", created_at: AT, updated_at: AT });
      if (bodies.length === 2) return json({ error: { code: "internal", message: "m" } }, 500);
      throw new TypeError("fetch failed", { cause: Object.assign(new Error("slow"), { code: "X_TIMEOUT" }) });
    };
    const by = client(answer);
    const all = { depth: Infinity, showHidden: true };
    const shown = [inspect(await by.secrets.set("A", value), all)];
    for (let time = 0; time < 2; time++) {
      const failed = await by.secrets.set("A", value).catch((error: unknown) => error);
      assert.ok(failed instanceof AtollError);
      shown.push(inspect(failed, all), String(failed), failed.stack!, JSON.stringify(failed));
    }
    shown.push(inspect(by, all), inspect(by.secrets, all), JSON.stringify(by));
    const sent = JSON.parse(bodies[0]!) as { value?: string; value_base64?: string };
    const spelled = [VALUE, sent.value ?? sent.value_base64!];
    assert.ok(bodies[0]!.includes(spelled[1]!), "it was sent");
    for (const text of shown) for (const one of spelled) assert.ok(!text.includes(one), text);
  });
}
