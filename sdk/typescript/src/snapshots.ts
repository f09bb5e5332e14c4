// Snapshots: what sandboxes kept at one moment, to go back to and to make others of.

import { newKey } from "./bytes.ts";
import { apiError, type AtollError } from "./errors.ts";
import { Sandbox } from "./sandbox.ts";
import type { Transport } from "./transport.ts";
import type { CreateSandbox, Schemas, SnapshotDiff, SnapshotInfo } from "./types.ts";

/** A copy of a large workspace, or a thousand forks, take what they take. */
const AS_LONG_AS_IT_TAKES = 0;

/** Which snapshots are listed. */
export interface SnapshotListOptions {
  /** Only those of the sandbox of this id or name. */
  sandbox?: string;
  /** With all of these labels. */
  labels?: Record<string, string>;
  /** How many are fetched at once. */
  pageCount?: number;
  signal?: AbortSignal;
}

/** What a snapshot is compared with. */
export interface SnapshotDiffOptions {
  /** The other one, or its id. */
  since?: Snapshot | string;
  /** At most so many entries. */
  limit?: number;
  signal?: AbortSignal;
}

/** What a snapshot is taken with. */
export interface SnapshotOptions {
  /** Labels to find it by. */
  labels?: Record<string, string>;
  /** It is deleted after so long; never if absent. What was made of it stays. */
  deleteAfterMs?: number;
  /** Of those of the sandbox with exactly these labels so many are kept, this one included; all if absent. */
  keepLast?: number;
  signal?: AbortSignal;
}

/** How many sandboxes are made, and what they have that is not as it was. */
export type ForkOptions = Omit<CreateSandbox, "image" | "snapshot" | "workspace"> & {
  /** One if absent. Of several, names have `-1`, `-2` and so on behind them. */
  count?: number;
  signal?: AbortSignal;
};

/** The snapshots of a server. */
export class Snapshots {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** The snapshot of this id. */
  async get(snapshot: string): Promise<Snapshot> {
    return new Snapshot(this.#transport, await this.#transport.json({ method: "GET", path: pathOf(snapshot) }));
  }

  /** Snapshots, oldest first, fetched page by page. */
  async *list(options: SnapshotListOptions = {}): AsyncGenerator<Snapshot> {
    const label = Object.entries(options.labels ?? {}).map(([name, value]) => `${name}=${value}`);
    let after: string | undefined;
    do {
      const query = { sandbox: options.sandbox, label, page_count: options.pageCount, after };
      const request = { method: "GET", path: "/v1/snapshots", query, signal: options.signal } as const;
      const page: Schemas["SnapshotPage"] = await this.#transport.json(request);
      for (const info of page.snapshots) yield new Snapshot(this.#transport, info);
      after = page.next;
    } while (after !== undefined);
  }

  /** Deletes the snapshot of this id; sandboxes that were made of it stay as they are. */
  async delete(snapshot: string): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: pathOf(snapshot) });
  }
}

/** A snapshot: the files that a sandbox kept at one moment. */
export class Snapshot {
  /** What is known of it. */
  readonly info: SnapshotInfo;
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport, info: SnapshotInfo) {
    this.#transport = transport;
    this.info = info;
  }

  /** Its id, which nothing else ever has. */
  get id(): string {
    return this.info.id;
  }

  /**
   * Makes sandboxes of it, each of them once, also where the connection breaks.
   *
   * What is not said here they have of the sandbox that it was taken of, but no secrets and no volumes. If none can be made, the
   * error of the first one is thrown.
   */
  async fork(options: ForkOptions & { idempotencyKey?: string } = {}): Promise<Forks> {
    const { count, idempotencyKey = newKey(), signal, ...sandbox } = options;
    const forks: Schemas["Forks"] = await this.#transport.json({
      method: "POST",
      path: `${pathOf(this.id)}/fork`,
      headers: { "idempotency-key": idempotencyKey },
      json: { count, sandbox },
      isRepeatable: true,
      silenceMs: AS_LONG_AS_IT_TAKES,
      signal,
    });
    return new Forks(this.#transport, forks);
  }

  /** What it has otherwise than another snapshot of the same image, or than the one before it. */
  async diff(options: SnapshotDiffOptions = {}): Promise<SnapshotDiff> {
    const { since, limit, signal } = options;
    const query = { with: since === undefined ? undefined : idOf(since), limit };
    const path = `${pathOf(this.id)}/diff`;
    return this.#transport.json({ method: "GET", path, query, silenceMs: AS_LONG_AS_IT_TAKES, signal });
  }

  /** Deletes it; sandboxes that were made of it stay as they are. */
  async delete(): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: pathOf(this.id) });
  }
}

/** Sandboxes that were made together. Iterating gives those that run; `errors` has why the others do not. */
export class Forks {
  /** Of what they were made. */
  readonly snapshotId: string;
  /** Those that run. */
  readonly sandboxes: readonly Sandbox[];
  /** Why each of the others could not be made. */
  readonly errors: readonly AtollError[];

  /** @internal */
  constructor(transport: Transport, { snapshotId, forks }: Schemas["Forks"]) {
    this.snapshotId = snapshotId;
    this.sandboxes = forks.flatMap((one) => ("sandbox" in one ? [new Sandbox(transport, one.sandbox, true)] : []));
    this.errors = forks.flatMap((one) => ("error" in one ? [apiError(one.error)] : []));
  }

  /** Whether all run that were asked for. */
  get ok(): boolean {
    return this.errors.length === 0;
  }

  [Symbol.iterator](): Iterator<Sandbox> {
    return this.sandboxes[Symbol.iterator]();
  }
}

/** Takes a snapshot of the sandbox at this path. */
export async function take(transport: Transport, path: string, options: SnapshotOptions): Promise<Snapshot> {
  const { signal, ...json } = options;
  const asked = { method: "POST", path: `${path}/snapshots`, silenceMs: AS_LONG_AS_IT_TAKES } as const;
  return new Snapshot(transport, await transport.json({ ...asked, json, signal }));
}

/** Takes a snapshot of the sandbox at this path, and makes others of it. */
export async function fork(
  transport: Transport,
  path: string,
  options: ForkOptions & { snapshot?: Omit<SnapshotOptions, "signal"> },
): Promise<Forks> {
  const { count, snapshot, signal, ...sandbox } = options;
  const asked = { method: "POST", path: `${path}/fork`, silenceMs: AS_LONG_AS_IT_TAKES } as const;
  return new Forks(transport, await transport.json({ ...asked, json: { count, sandbox, snapshot }, signal }));
}

/** The request to put a sandbox back. */
export function restore(snapshot: Snapshot | string) {
  const json = { snapshot: idOf(snapshot) };
  return { method: "POST", path: "/restore", json, silenceMs: AS_LONG_AS_IT_TAKES } as const;
}

/** The id of what may be one already. */
export function idOf(snapshot: Snapshot | string): string {
  return typeof snapshot === "string" ? snapshot : snapshot.id;
}

function pathOf(snapshot: string): string {
  return `/v1/snapshots/${encodeURIComponent(snapshot)}`;
}
