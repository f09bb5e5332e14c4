// Archives: snapshots and sandboxes in object storage, which servers with the same place for them share.

import { Sandbox } from "./sandbox.ts";
import { idOf, Snapshot } from "./snapshots.ts";
import type { Transport } from "./transport.ts";
import type { Archived, ArchiveInfo, Schemas, UnreadableArchive } from "./types.ts";

/** Packing, sending and reading back take what they take. */
const AS_LONG_AS_IT_TAKES = 0;

/** How archives are listed. */
export interface ArchiveListOptions {
  /** How many are fetched at once. */
  pageCount?: number;
  signal?: AbortSignal;
}

/** The archives that a server's object store has, whoever made them. */
export class Archives {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Archives a snapshot, which stays; `Sandbox.archive` does so with a sandbox. */
  async create(snapshot: Snapshot | string): Promise<Archived> {
    const path = `/v1/snapshots/${encodeURIComponent(idOf(snapshot))}/archive`;
    return this.#transport.json({ method: "POST", path, silenceMs: AS_LONG_AS_IT_TAKES });
  }

  /** The archive of this id. */
  async get(archive: string): Promise<ArchiveInfo> {
    return this.#transport.json({ method: "GET", path: pathOf(archive) });
  }

  /** Archives in the order of their ids, fetched page by page; those that cannot be read come with the reason. */
  async *list(options: ArchiveListOptions = {}): AsyncGenerator<ArchiveInfo | UnreadableArchive> {
    let after: string | undefined;
    do {
      const query = { page_count: options.pageCount, after };
      const request = { method: "GET", path: "/v1/archives", query, signal: options.signal } as const;
      const page: Schemas["ArchivePage"] = await this.#transport.json(request);
      yield* page.archives;
      yield* page.unreadable ?? [];
      after = page.next;
    } while (after !== undefined);
  }

  /** Makes what an archive is of: a snapshot, or a sandbox, which runs. Its id is a new one; the archive stays. */
  async restore(archive: string): Promise<Snapshot | Sandbox> {
    const path = `${pathOf(archive)}/restore`;
    const asked = { method: "POST", path, silenceMs: AS_LONG_AS_IT_TAKES } as const;
    const made: Schemas["RestoredArchive"] = await this.#transport.json(asked);
    if ("sandbox" in made) return new Sandbox(this.#transport, made.sandbox, true);
    return new Snapshot(this.#transport, made.snapshot);
  }

  /** Deletes the archive of this id; what was restored of it stays. */
  async delete(archive: string): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: pathOf(archive) });
  }
}

function pathOf(archive: string): string {
  return `/v1/archives/${encodeURIComponent(archive)}`;
}
