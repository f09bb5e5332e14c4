// The audit log of a server.

import { followNumbered } from "./events.ts";
import type { Transport } from "./transport.ts";
import type { AuditRecord, Schemas } from "./types.ts";

/** What is wanted of the log. */
export interface AuditOptions {
  /** Begin behind the record of this number. */
  after?: number;
  /** Only of the sandbox of this id or name. */
  sandbox?: string;
  /** Only of these kinds, as in `exec_started`; of all if absent. */
  kinds?: readonly string[];
  signal?: AbortSignal;
}

/** What was run, set, allowed, refused and decided; to read it takes a key of scope `admin`. */
export class Audit {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** What is recorded, the oldest first, fetched page by page. */
  async *list(options: AuditOptions & { pageCount?: number } = {}): AsyncGenerator<AuditRecord> {
    const { sandbox, kinds: kind, pageCount: page_count, signal } = options;
    let { after } = options;
    do {
      const query = { after, sandbox, kind, page_count };
      const page: Schemas["AuditPage"] = await this.#transport.json({ method: "GET", path: "/v1/audit", query, signal });
      yield* page.records;
      after = page.next;
    } while (after !== undefined);
  }

  /**
   * Records as they come, from now on or behind one. It ends when the caller stops asking.
   *
   * It goes on where the connection broke: nothing is left out, and nothing comes twice.
   */
  async *follow(options: AuditOptions = {}): AsyncGenerator<AuditRecord> {
    const { after, sandbox, kinds: kind, signal } = options;
    const request = { path: "/v1/audit", query: { sandbox, kind }, signal };
    for await (const one of followNumbered<AuditRecord>(this.#transport, request, after)) if ("seq" in one) yield one;
  }
}
