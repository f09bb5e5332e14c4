// The volumes of a server: directories that outlive sandboxes and are shown in several of them.

import type { Transport } from "./transport.ts";
import type { Schemas, Volume } from "./types.ts";

/** Which volumes are listed. */
export interface VolumeListOptions {
  /** With all of these labels. */
  labels?: Record<string, string>;
  /** How many are fetched at once. */
  pageCount?: number;
  signal?: AbortSignal;
}

/** The volumes of a server. Each is named by its id or its name. */
export class Volumes {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Makes an empty volume. */
  async create(name: string, options: { labels?: Record<string, string> } = {}): Promise<Volume> {
    return this.#transport.json({ method: "POST", path: "/v1/volumes", json: { name, ...options } });
  }

  /** Volumes by name, fetched page by page. */
  async *list(options: VolumeListOptions = {}): AsyncGenerator<Volume> {
    const label = Object.entries(options.labels ?? {}).map(([name, value]) => `${name}=${value}`);
    let after: string | undefined;
    do {
      const query = { label, page_count: options.pageCount, after };
      const request = { method: "GET", path: "/v1/volumes", query, signal: options.signal } as const;
      const page: Schemas["VolumePage"] = await this.#transport.json(request);
      yield* page.volumes;
      after = page.next;
    } while (after !== undefined);
  }

  /** The volume of this id or name. */
  async get(volume: string): Promise<Volume> {
    return this.#transport.json({ method: "GET", path: path(volume) });
  }

  /** Deletes a volume with all that it holds. One that a sandbox has, be that stopped, stays. */
  async delete(volume: string): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: path(volume) });
  }
}

function path(volume: string): string {
  return `/v1/volumes/${encodeURIComponent(volume)}`;
}
