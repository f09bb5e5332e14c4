// A server, its sandboxes and its keys.

import { Approvals } from "./approvals.ts";
import { Audit } from "./audit.ts";
import { newKey } from "./bytes.ts";
import type { Fetch } from "./channel/fetch.ts";
import { findEndpoint } from "./endpoint.ts";
import { type EventOptions, follow } from "./events.ts";
import { Images } from "./images.ts";
import { Sandbox } from "./sandbox.ts";
import { Secrets } from "./secrets.ts";
import { Archives } from "./archives.ts";
import { idOf, type Snapshot, Snapshots } from "./snapshots.ts";
import { type Request, Transport } from "./transport.ts";
import { Volumes } from "./volumes.ts";
import type {
  Capabilities,
  CreateSandbox,
  Event,
  Health,
  Key,
  Missed,
  NewKey,
  SandboxInfo,
  SandboxState,
  Schemas,
  Scope,
  Budgets,
  SharedBudget,
  UsagePage,
} from "./types.ts";

/** A little more than three of the server's heartbeats. */
const STREAM_SILENCE_MS = 50_000;
/** Services have their time to be ready, and an image to be unpacked. */
const CREATE_MS = 600_000;

/** Where a server is, and how it is talked to. */
export interface AtollOptions {
  /**
   * `unix:///PATH`, `http://HOST:PORT` or `https://HOST`; else what `ATOLL_HOST` says, else the socket where
   * `atoll serve` of the same user listens. In a browser the page's own server.
   */
  host?: string;
  /** The key for it, needed over TCP; else what `ATOLL_API_KEY` says. */
  apiKey?: string;
  /** After how many silent milliseconds a stream is taken up again. */
  silenceMs?: number;
  /** Send requests by this instead of Node's client; in a browser `fetch` is what there is. */
  fetch?: Fetch;
}

/** What a sandbox of a known name is made with. */
export type GetOrCreateOptions = Omit<CreateSandbox, "name" | "snapshot"> & {
  /** The snapshot that it begins with, in place of an image, or its id. */
  snapshot?: Snapshot | string;
  /** A local directory that its workspace begins with, all of it. There is no sandbox if the connection breaks. */
  files?: string;
  signal?: AbortSignal;
};

/** What a sandbox is made with, and how it is asked for. */
export type CreateOptions = Pick<CreateSandbox, "name"> &
  GetOrCreateOptions & {
    /** Requests with the same key make one sandbox; each call has its own if absent. */
    idempotencyKey?: string;
  };

/** Which sandboxes are listed. */
export interface ListOptions {
  /** In one of these states; in any if absent. */
  states?: readonly SandboxState[];
  /** With all of these labels. */
  labels?: Record<string, string>;
  /** How many are fetched at once. */
  pageCount?: number;
  signal?: AbortSignal;
}

/** Of which sandboxes it is told what they have used. */
export interface UsageOptions {
  /** With all of these labels. */
  labels?: Record<string, string>;
  /** How many are told one by one. */
  pageCount?: number;
  /** The `next` of the page before. */
  cursor?: string;
}

/** A server. */
export class Atoll {
  /** Its keys. */
  readonly keys: Keys;
  /** The snapshots of its sandboxes. */
  readonly snapshots: Snapshots;
  /** Snapshots and sandboxes in its object storage. */
  readonly archives: Archives;
  /** Its secrets. */
  readonly secrets: Secrets;
  /** The images that its sandboxes are made of. */
  readonly images: Images;
  /** What its sandboxes asked for, and people decide. */
  readonly approvals: Approvals;
  /** Its volumes. */
  readonly volumes: Volumes;
  /** What was recorded. */
  readonly audit: Audit;
  readonly #transport: Transport;

  constructor(options: AtollOptions | string = {}) {
    const { host, apiKey, silenceMs, fetch } =
      typeof options === "string" ? ({ host: options } as AtollOptions) : options;
    this.#transport = new Transport(findEndpoint(host, apiKey), silenceMs ?? STREAM_SILENCE_MS, fetch);
    this.keys = new Keys(this.#transport);
    this.snapshots = new Snapshots(this.#transport);
    this.archives = new Archives(this.#transport);
    this.secrets = new Secrets(this.#transport);
    this.images = new Images(this.#transport);
    this.approvals = new Approvals(this.#transport);
    this.volumes = new Volumes(this.#transport);
    this.audit = new Audit(this.#transport);
  }

  /**
   * Makes a sandbox, and returns when it runs. It is made once, also where the connection breaks.
   *
   * It reaches what `network` says, and nothing where nothing is said. Commands like one of `execAsk`, as in
   * `git push *`, wait for somebody who approves: see `Sandbox.exec`.
   */
  async create(options: CreateOptions = {}): Promise<Sandbox> {
    const { idempotencyKey = newKey(), ...rest } = options;
    const headers = { "idempotency-key": idempotencyKey };
    return new Sandbox(
      this.#transport,
      await this.#make({ method: "POST", path: "/v1/sandboxes", headers }, rest),
      true,
    );
  }

  /** The sandbox of this id or name. */
  async get(sandbox: string): Promise<Sandbox> {
    return new Sandbox(this.#transport, await this.#transport.json({ method: "GET", path: sandboxPath(sandbox) }));
  }

  /** The sandbox of this name, made if there is none. However many ask at once, all get the same. */
  async getOrCreate(name: string, options: GetOrCreateOptions = {}): Promise<Sandbox> {
    return new Sandbox(this.#transport, await this.#make({ method: "PUT", path: sandboxPath(name) }, options));
  }

  /** Sandboxes, oldest first, fetched page by page. */
  async *list(options: ListOptions = {}): AsyncGenerator<Sandbox> {
    const label = Object.entries(options.labels ?? {}).map(([name, value]) => `${name}=${value}`);
    let cursor: string | undefined;
    do {
      const query = { state: options.states, label, page_count: options.pageCount, cursor };
      const request = { method: "GET", path: "/v1/sandboxes", query, signal: options.signal } as const;
      const page: Schemas["SandboxPage"] = await this.#transport.json(request);
      for (const info of page.sandboxes) yield new Sandbox(this.#transport, info);
      cursor = page.next;
    } while (cursor !== undefined);
  }

  /** What happens to all sandboxes, from now on or behind the event of a number. */
  events(options: EventOptions = {}): AsyncGenerator<Event | Missed> {
    return follow(this.#transport, undefined, options);
  }

  /** What sandboxes have used, those that were deleted included: a page of them, and all together. */
  async usage(options: UsageOptions = {}): Promise<UsagePage> {
    const { labels, pageCount: page_count, cursor } = options;
    const label = Object.entries(labels ?? {}).map(([name, value]) => `${name}=${value}`);
    return this.#transport.json({ method: "GET", path: "/v1/usage", query: { label, page_count, cursor } });
  }

  /** The budgets that sandboxes with certain labels have together, with what was used of them. */
  async budgets(): Promise<SharedBudget[]> {
    const found: Budgets = await this.#transport.json({ method: "GET", path: "/v1/budgets" });
    return found.budgets;
  }

  /** Tells what can be asked of the server. */
  async capabilities(): Promise<Capabilities> {
    return this.#transport.json({ method: "GET", path: "/v1/capabilities" });
  }

  /** Tells how the server is. One that is `failing` answers too. */
  async health(): Promise<Health> {
    return this.#transport.json({ method: "GET", path: "/healthz", alsoStatus: 503 });
  }

  async #make(request: Request, options: GetOrCreateOptions): Promise<SandboxInfo> {
    const { files, signal, snapshot, ...rest } = options;
    const json = snapshot === undefined ? rest : { ...rest, snapshot: idOf(snapshot) };
    const asked = { ...request, silenceMs: CREATE_MS, signal };
    if (files === undefined) return this.#transport.json({ ...asked, json, isRepeatable: true });
    const { packWith } = await import("./local/upload.ts");
    const content = packWith({ workspace: {}, ...json }, files);
    const headers = { ...request.headers, "content-type": "application/vnd.atoll.create" };
    return this.#transport.json({ ...asked, content, headers });
  }

  /** Closes all connections to the server; sandboxes go on. */
  async close(): Promise<void> {
    await this.#transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The keys of a server. */
export class Keys {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Makes a key. */
  async create(scope: Scope, options: { note?: string } = {}): Promise<NewKey> {
    return this.#transport.json({ method: "POST", path: "/v1/keys", json: { scope, ...options } });
  }

  /** All keys, oldest first, without their secrets. */
  async list(): Promise<Key[]> {
    return (await this.#transport.json<Schemas["Keys"]>({ method: "GET", path: "/v1/keys" })).keys;
  }

  /** Revokes the key of this id: on return it opens nothing any more. */
  async revoke(key: string): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: `/v1/keys/${encodeURIComponent(key)}` });
  }
}

function sandboxPath(sandbox: string): string {
  return `/v1/sandboxes/${encodeURIComponent(sandbox)}`;
}
