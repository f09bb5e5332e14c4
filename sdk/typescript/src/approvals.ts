// What sandboxes asked for: listed, decided and watched.

import { OPENED, Perseverance, type Transport } from "./transport.ts";
import type { Approval, ApprovalStatus, GrantScope, Schemas } from "./types.ts";
import { fromWire } from "./wire.ts";

/** How many approvals a watcher remembers to have told; a server remembers fewer. */
const TOLD_MAX = 10_000;

/** Which approvals are listed. */
export interface ApprovalListOptions {
  /** Those that stand so; all if absent. */
  status?: ApprovalStatus;
  /** Those of the sandbox of this id or name. */
  sandbox?: string;
  signal?: AbortSignal;
}

/** What sandboxes asked for because a rule says so, and people decide. */
export class Approvals {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Approvals, the oldest first, fetched page by page. */
  async *list(options: ApprovalListOptions = {}): AsyncGenerator<Approval> {
    const { status, sandbox, signal } = options;
    let cursor: number | undefined;
    do {
      const request = { method: "GET", path: "/v1/approvals", query: { status, sandbox, cursor }, signal } as const;
      const page: Schemas["ApprovalPage"] = await this.#transport.json(request);
      yield* page.approvals;
      cursor = page.next;
    } while (cursor !== undefined);
  }

  /** The approval of this id, as it is now. */
  async get(approval: string): Promise<Approval> {
    return this.#transport.json({ method: "GET", path: path(approval) });
  }

  /**
   * Approves what was asked for: `once` if nothing is said, for that `sandbox`, or `always`.
   *
   * Without `expiresInMs` it holds for ten minutes if it is for once, for as long as the sandbox is there, or for
   * thirty days if it is for always. It is rounded up to whole seconds.
   */
  async approve(approval: string, options: { scope?: GrantScope; expiresInMs?: number } = {}): Promise<Approval> {
    const { scope = "once", expiresInMs } = options;
    const expiresInS = expiresInMs === undefined ? undefined : Math.ceil(expiresInMs / 1000);
    return this.#transport.json({ method: "POST", path: `${path(approval)}/approve`, json: { scope, expiresInS } });
  }

  /**
   * Denies what was asked for, or takes back that it was approved; the agent reads the reason.
   * Requests to where a sandbox was let before may still go there for half a minute.
   */
  async deny(approval: string, options: { reason?: string } = {}): Promise<Approval> {
    return this.#transport.json({ method: "POST", path: `${path(approval)}/deny`, json: options });
  }

  /**
   * Approvals, first those that are pending and then each as it changes. It ends when the caller stops asking.
   *
   * What changed while the connection was broken comes when it is there again, and nothing comes twice.
   */
  async *watch(options: { signal?: AbortSignal } = {}): AsyncGenerator<Approval> {
    const { signal } = options;
    const told = new Told();
    for await (const one of this.list(options)) if (one.status !== "pending") told.isNews(one);
    let isBack = false;
    const perseverance = new Perseverance(this.#transport, signal);
    for (;;) {
      try {
        const request = { path: "/v1/approvals/events", signal, tellsOpening: true };
        for await (const { event, data } of this.#transport.events(request)) {
          if (event === "approval") {
            const one = fromWire(JSON.parse(data)) as Approval;
            perseverance.progressed();
            if (told.isNews(one)) yield one;
          } else if (event === OPENED && isBack) {
            for await (const one of this.list(options)) if (told.isNews(one)) yield one;
          } else if (event === "end") {
            break;
          }
          isBack = true;
        }
        throw this.#transport.broke("the stream of approvals ended");
      } catch (error) {
        await perseverance.orThrow(error);
      }
    }
  }
}

function path(approval: string): string {
  return `/v1/approvals/${encodeURIComponent(approval)}`;
}

/** What was told of approvals, and how far each had come. */
class Told {
  readonly #told = new Map<string, readonly [number, number]>();

  /** Whether this was not told yet; from now on it was. */
  isNews(approval: Approval): boolean {
    const [stage, count] = [stageOf(approval), approval.count];
    const before = this.#told.get(approval.id);
    if (before && (stage < before[0] || (stage === before[0] && count <= before[1]))) return false;
    this.#told.set(approval.id, [stage, count]);
    if (this.#told.size > TOLD_MAX) this.#told.delete(this.#told.keys().next().value!);
    return true;
  }
}

/** How far it has come: pending, approved, used, over. */
function stageOf(approval: Approval): number {
  if (approval.status === "pending") return 0;
  if (approval.status !== "approved") return 3;
  return approval.decided?.isUsed ? 2 : 1;
}
