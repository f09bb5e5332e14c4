// A server of the tests' own, and a proxy in front of it that breaks connections.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createConnection, createServer, type AddressInfo, type Server as Listener, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Atoll, ConnectionError, NotFoundError } from "../src/index.ts";

/** The folder of the whole repository; tests run from `build/test`. */
export const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
export const ORDINARY = 54_321;
const DEADLINE_MS = 20_000;

/** Looks until there is something, and fails if there is nothing in time. */
export async function waitUntil<T>(
  what: string,
  look: () => Promise<T> | T,
  deadlineMs = DEADLINE_MS,
): Promise<NonNullable<T>> {
  const end = Date.now() + deadlineMs;
  while (Date.now() < end) {
    const found = await look();
    if (found) return found;
    await delay(20);
  }
  throw new Error(`waited too long for ${what}`);
}

const told = new Set<string>();

/** Notes that something was not tested, where `cargo xtask ci` looks. */
export function skip(test: TestContext, name: string, reason: string): void {
  const line = `SKIPPED ${name}: ${reason}\n`;
  if (!told.has(line)) process.stderr.write(line);
  told.add(line);
  const folder = process.env.ATOLL_TEST_SKIPS;
  if (folder) writeFileSync(join(folder, `${name}.txt`), line);
  test.skip(reason);
}

/** The program that is tested. */
function program(): string {
  const named = process.env.ATOLL_PROGRAM;
  if (named) return named;
  const targets = join(ROOT, "target");
  for (const one of readdirSync(targets).sort()) {
    const found = join(targets, one, "debug/atoll");
    if (existsSync(found)) return found;
  }
  throw new Error("build it first: cargo build -p atoll");
}

/** What sandboxes of the tests can reach: `internet.py` in the folder above. */
class Internet {
  readonly port: number;
  readonly variables: Record<string, string>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, folder: string, { dns, port }: { dns: string; port: number }) {
    this.#child = child;
    this.port = port;
    this.variables = { ATOLL_DNS: dns, SSL_CERT_FILE: join(folder, "authority.pem") };
  }

  static async start(folder: string): Promise<Internet> {
    const child = spawn("python3", ["-B", join(ROOT, "sdk/internet.py"), folder], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const [said] = (await once(createInterface(child.stdout), "line")) as [string];
    return new Internet(child, folder, JSON.parse(said) as { dns: string; port: number });
  }

  async close(): Promise<void> {
    this.#child.stdin?.end();
    if (this.#child.exitCode === null) await once(this.#child, "exit");
  }
}

export type As = "root" | "user";

/** `atoll serve` as root or as an ordinary user. At the end nothing is left of it. */
export class Server {
  readonly socket: string;
  readonly host: string;
  readonly folder: string;
  readonly internet: Internet;
  readonly #child: ChildProcess;
  readonly #log: string;

  private constructor(as: As, found: string, folder: string, internet: Internet) {
    this.folder = folder;
    this.internet = internet;
    this.socket = join(this.folder, "atoll.sock");
    this.host = `unix://${this.socket}`;
    this.#log = join(this.folder, "log");
    const copy = join(this.folder, "atoll");
    // An ordinary user may not reach where it was built.
    copyFileSync(found, copy);
    const uid = as === "user" && process.getuid?.() === 0 ? ORDINARY : undefined;
    if (uid !== undefined) chownSync(this.folder, uid, uid);
    const log = openSync(this.#log, "w");
    const state = join(this.folder, "state");
    const flags = ["--listen", "127.0.0.1:0", "--archive", `file://${state}-archives`];
    this.#child = spawn(copy, ["serve", "--state", state, "--socket", this.socket, ...flags], {
      cwd: this.folder,
      env: { PATH: process.env.PATH, HOME: this.folder, ...internet.variables },
      stdio: ["ignore", log, log],
      ...(uid !== undefined && { uid, gid: uid }),
    });
  }

  /** One that answers; nothing where this user cannot start it. */
  static async start(as: As): Promise<Server | undefined> {
    if (as === "root" && process.getuid?.() !== 0) return undefined;
    const folder = mkdtempSync(join(tmpdir(), "atoll-sdk-"));
    const server = new Server(as, program(), folder, await Internet.start(folder));
    try {
      await waitUntil("the server", () => server.#answers());
    } catch (error) {
      await server.#end();
      throw error;
    }
    return server;
  }

  async #answers(): Promise<boolean> {
    if (this.#child.exitCode !== null) throw new Error(readFileSync(this.#log, "utf8"));
    await using client = new Atoll(this.host);
    return await client.health().then(
      ({ status }) => status !== "failing",
      (error: unknown) => {
        if (error instanceof ConnectionError) return false;
        throw error;
      },
    );
  }

  /** Where it listens on TCP. */
  get port(): number {
    const log = readFileSync(this.#log, "utf8");
    const found = /address=127\.0\.0\.1:(\d+)/.exec(log);
    if (!found) throw new Error(log);
    return Number(found[1]);
  }

  /** Its first key. */
  get key(): string {
    return readFileSync(join(this.folder, "state/first-key"), "utf8").trim();
  }

  /** Deletes its sandboxes, ends it and removes its folder. */
  async close(): Promise<void> {
    try {
      await using client = new Atoll(this.host);
      for await (const sandbox of client.list()) {
        await sandbox.delete().catch((error: unknown) => {
          if (!(error instanceof NotFoundError)) throw error;
        });
      }
      const kept = join(this.folder, "state/sandboxes");
      await waitUntil("all to be removed", () => !readdirSync(kept).some((name) => name.startsWith("sbx_")));
    } finally {
      await this.#end();
    }
  }

  async #end(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.kill("SIGTERM")) await once(this.#child, "exit");
    await this.internet.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Passes connections on; each of the first ones is cut after so many bytes of answers. */
export class Proxy {
  /** How many connections were cut. */
  cutCount = 0;
  readonly #cuts: number[];
  readonly #target: { path: string } | { port: number; host: string };
  readonly #listener: Listener;
  readonly #sockets = new Set<Socket>();

  private constructor(target: { path: string } | { port: number; host: string }, cuts: readonly number[]) {
    this.#target = target;
    this.#cuts = [...cuts];
    this.#listener = createServer({ allowHalfOpen: true }, (client) => this.#accept(client));
  }

  /** One that listens on TCP, whatever its target is. */
  static async start(
    target: { path: string } | { port: number; host: string },
    cuts: readonly number[],
  ): Promise<Proxy> {
    const proxy = new Proxy(target, cuts);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  get host(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  #accept(client: Socket): void {
    const server = createConnection({ ...this.#target, allowHalfOpen: true });
    let left = this.#cuts.shift() ?? Infinity;
    for (const one of [client, server]) {
      this.#sockets.add(one);
      one.on("error", () => {});
      one.on("close", () => {
        this.#sockets.delete(one);
        client.destroy();
        server.destroy();
      });
    }
    client.pipe(server);
    server.on("data", (bytes) => {
      const some = bytes.subarray(0, left);
      left -= some.length;
      const isCut = left === 0;
      if (isCut) {
        this.cutCount += 1;
        server.destroy();
        client.end(some, () => client.destroy());
      } else if (!client.write(some)) {
        server.pause();
        client.once("drain", () => server.resume());
      }
    });
    server.on("end", () => client.end());
  }

  /** Takes no more connections, and ends those that are there. */
  close(): void {
    this.#listener.close();
    for (const one of this.#sockets) one.destroy();
  }
}
