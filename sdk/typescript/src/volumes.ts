// The volumes of a server: directories that outlive sandboxes and are shown in several of them.

import type { Transport } from "./transport.ts";
import type { Schemas, Volume } from "./types.ts";

/** A copy of a large volume takes what it takes. */
const AS_LONG_AS_IT_TAKES = 0;

/** What a volume is made with. */
export interface VolumeOptions {
  /** Labels to find it by. */
  labels?: Record<string, string>;
  /** The volume, by its id or name, that it is to be a copy of. */
  copyOf?: string;
  /** Nobody writes to it, ever. Only for a copy, which is a snapshot then, and for a folder. */
  isReadOnly?: boolean;
  /** The most that its files may take on the disk, in bytes. */
  limitBytes?: number;
  /** The folder of the server's machine that it is to be, one that its settings grant. Needs a key of scope `admin`. */
  hostPath?: string;
  signal?: AbortSignal;
}

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

  /** Makes a volume: empty, or a copy of another one as that is at one moment, while who writes to it stands still. */
  async create(name: string, options: VolumeOptions = {}): Promise<Volume> {
    const { signal, ...rest } = options;
    const asked = { method: "POST", path: "/v1/volumes", silenceMs: AS_LONG_AS_IT_TAKES } as const;
    return this.#transport.json({ ...asked, json: { name, ...rest }, signal });
  }

  /** Limits how many bytes may lie on a volume, no fewer than do; `null` takes the limit away. */
  async setLimit(volume: string, limitBytes: number | null): Promise<Volume> {
    const asked = { method: "PUT", path: `${path(volume)}/limit`, silenceMs: AS_LONG_AS_IT_TAKES } as const;
    return this.#transport.json({ ...asked, json: { bytes: limitBytes } });
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

  /** What a volume holds as a tar archive, as it comes. Where a sandbox writes to it, take a snapshot and export that. */
  async *export(volume: string, options: { signal?: AbortSignal } = {}): AsyncGenerator<Uint8Array> {
    const answer = await this.#transport.open({ method: "GET", path: `${path(volume)}/export`, signal: options.signal });
    yield* answer.body;
  }

  /** Deletes a volume with all that it holds. One that a sandbox has, be that stopped, stays. */
  async delete(volume: string): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: path(volume) });
  }
}

function path(volume: string): string {
  return `/v1/volumes/${encodeURIComponent(volume)}`;
}
