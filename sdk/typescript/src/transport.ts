// Requests: sent, sent again where that is safe, and what is done when a connection breaks.

import { type Answer, type Channel, type Content, fault } from "./channel/channel.ts";
import { type Fetch, FetchChannel } from "./channel/fetch.ts";
import type { Endpoint } from "./endpoint.ts";
import { CapacityError, ConnectionError, errorOf } from "./errors.ts";
import { collect, utf8 } from "./bytes.ts";
import { percentEncode } from "./octets.ts";
import { parseEvents, type ServerEvent } from "./sse.ts";
import { fromWire, toWire } from "./wire.ts";

type QueryValue = string | number | boolean | Uint8Array | undefined;

/** A request to the API. */
export interface Request {
  method: "GET" | "POST" | "PUT" | "DELETE";
  path: string;
  /** A list stands for the same name several times. */
  query?: Record<string, QueryValue | readonly QueryValue[]>;
  json?: unknown;
  content?: Content;
  headers?: Record<string, string>;
  /** Whether it may be sent again where nobody knows if it arrived; true of `GET` if absent. */
  isRepeatable?: boolean;
  /** How long the server may say nothing, in milliseconds; 0 for as long as it likes. */
  silenceMs?: number;
  /** A status that is an answer too, and no error. */
  alsoStatus?: number;
  signal?: AbortSignal | undefined;
}

/** How long the server may say nothing where it is not asked to wait. */
export const SILENCE_MS = 60_000;
/** The kind of the event that says that there is a connection; no server says it. */
export const OPENED = "\0opened";
/** How long something that breaks is tried again without getting any further. */
const PATIENCE_MS = 15_000;
/** The longest pause between two tries. */
const PAUSE_MS_MAX = 1_000;

export class Transport {
  /** Where it connects to, for people. */
  readonly address: string;
  /** How long a stream with heartbeats may be silent. */
  readonly streamSilenceMs: number;
  /** Whether the server ever answered: only then is it worth the while to look for it again. */
  wasReached = false;
  readonly #endpoint: Endpoint;
  readonly #fetch: Fetch | undefined;
  #channel: Promise<Channel> | undefined;

  constructor(endpoint: Endpoint, streamSilenceMs: number, fetch: Fetch | undefined) {
    this.#endpoint = endpoint;
    this.#fetch = fetch;
    this.streamSilenceMs = streamSilenceMs;
    this.address = endpoint.socketPath ?? endpoint.origin.host;
  }

  /** Ends all connections. A later request makes new ones. */
  async close(): Promise<void> {
    const channel = this.#channel;
    this.#channel = undefined;
    (await channel)?.close();
  }

  /** The error of a stream that ended too early. */
  broke(how: string): ConnectionError {
    return fault("broken", this.address, new Error(how));
  }

  /** Sends a request; gives the value that is answered. */
  async json<T>(request: Request): Promise<T> {
    const bytes = await this.bytes(request);
    return (bytes.length === 0 ? undefined : fromWire(JSON.parse(new TextDecoder().decode(bytes)))) as T;
  }

  /** Sends a request, again where the connection breaks and that is safe; gives the bytes that are answered. */
  async bytes(request: Request): Promise<Uint8Array> {
    const isWhole =
      request.content === undefined || typeof request.content === "string" || request.content instanceof Uint8Array;
    const perseverance = new Perseverance(this, request.signal);
    for (;;) {
      try {
        return await collect((await this.open(request)).body);
      } catch (error) {
        if (!isWhole || !isRepeatable(error, request)) throw error;
        await perseverance.orThrow(error);
      }
    }
  }

  /** The events of a stream, up to its end or its break. */
  async *events(
    request: Omit<Request, "method"> & { method?: "GET" | "POST"; tellsOpening?: boolean },
  ): AsyncGenerator<ServerEvent> {
    const { tellsOpening, ...asked } = request;
    const headers = { accept: "text/event-stream", ...asked.headers };
    const answer = await this.open({ method: "GET", silenceMs: this.streamSilenceMs, ...asked, headers });
    if (tellsOpening) yield { event: OPENED, data: "", id: "" };
    yield* parseEvents(answer.body);
  }

  /** Sends a request once; gives the answer, or throws the error that it is. */
  async open(request: Request): Promise<Answer> {
    const json = request.json === undefined ? undefined : JSON.stringify(toWire(request.json));
    const content = json ?? request.content;
    const headers: Record<string, string> = { accept: "application/json", ...request.headers };
    if (this.#endpoint.apiKey !== undefined) headers.authorization = `Bearer ${this.#endpoint.apiKey}`;
    if (json !== undefined) headers["content-type"] = "application/json";
    this.#channel ??= this.#connect();
    const channel = await this.#channel;
    request.signal?.throwIfAborted();
    const answer = await channel.send({
      method: request.method,
      target: request.path + queryString(request.query),
      headers,
      content: typeof content === "string" ? utf8(content) : content,
      silenceMs: request.silenceMs ?? SILENCE_MS,
      signal: request.signal,
    });
    this.wasReached = true;
    const { status } = answer;
    if ((status >= 200 && status < 300) || status === request.alsoStatus) return answer;
    throw errorOf(status, new TextDecoder().decode(await collect(answer.body)));
  }

  async #connect(): Promise<Channel> {
    const isNode = typeof process !== "undefined" && process.versions?.node !== undefined;
    if (this.#fetch || !isNode) {
      if (this.#endpoint.socketPath !== undefined) throw new TypeError("fetch knows no unix sockets: give a host");
      return new FetchChannel(this.#endpoint, this.address, this.#fetch ?? globalThis.fetch.bind(globalThis));
    }
    const { NodeChannel } = await import("./channel/node.ts");
    return new NodeChannel(this.#endpoint, this.address);
  }
}

/** Whether a request may be sent again after this error. */
function isRepeatable(error: unknown, request: Request): boolean {
  if (!(error instanceof ConnectionError)) return pauseAsked(error) !== undefined;
  if (error.kind === "unreachable") return true;
  return error.kind === "broken" && (request.isRepeatable ?? request.method === "GET");
}

/** How long to wait where it was only asked too often, which a moment cures. */
function pauseAsked(error: unknown): number | undefined {
  const isTooOften = error instanceof CapacityError && error.details.limit === "requests_per_second_max";
  if (!isTooOften) return undefined;
  return error.retry.kind === "after" ? error.retry.afterMs : 0;
}

/** Decides how long something that breaks is tried again. */
export class Perseverance {
  readonly #transport: Transport;
  readonly #signal: AbortSignal | undefined;
  #since: number | undefined;
  #last = 0;
  #pauseMs = 0;

  constructor(transport: Transport, signal?: AbortSignal) {
    this.#transport = transport;
    this.#signal = signal;
  }

  /** It got further: from now on it may take as long again. */
  progressed(): void {
    this.#since = undefined;
    this.#pauseMs = 0;
  }

  /**
   * Returns when it is time to try again. Throws the error if that is no fault of a connection, or
   * has gone on for too long, or if there never was a server.
   */
  async orThrow(error: unknown): Promise<void> {
    this.#signal?.throwIfAborted();
    const asked = pauseAsked(error);
    if (asked === undefined) {
      if (!(error instanceof ConnectionError)) throw error;
      if (error.kind === "unreachable" && !this.#transport.wasReached) throw error;
    }
    const now = Date.now();
    // What has held for as long is a connection, even if nothing came through it.
    if (now - this.#last > PATIENCE_MS) this.progressed();
    this.#last = now;
    this.#since ??= now;
    if (now - this.#since > PATIENCE_MS) throw error;
    await delay(Math.max(asked ?? 0, this.#pauseMs), this.#signal);
    this.#pauseMs = Math.min(PAUSE_MS_MAX, this.#pauseMs * 2 + 50);
  }
}

/** Waits so long, or until the signal is aborted, which throws. */
export function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

function queryString(query: Request["query"]): string {
  const parts = Object.entries(query ?? {}).flatMap(([name, value]) => {
    const values = Array.isArray(value) ? value : [value];
    return values
      .filter((one) => one !== undefined)
      .map((one) => `${name}=${percentEncode(one instanceof Uint8Array ? one : String(one))}`);
  });
  return parts.length > 0 ? `?${parts.join("&")}` : "";
}
