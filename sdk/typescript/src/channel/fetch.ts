// HTTP by `fetch`, as browsers have it.

import type { Endpoint } from "../endpoint.ts";
import { ConnectionError } from "../errors.ts";
import { type Answer, type Channel, fault, type Message, within } from "./channel.ts";

/** `fetch`, or something like it. */
export type Fetch = (url: URL, options: RequestInit & { duplex?: "half" }) => Promise<Response>;

/** How Node says that there is no connection. Browsers do not say, so to them it has broken. */
const UNREACHABLE = [
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
];

export class FetchChannel implements Channel {
  readonly #origin: URL;
  readonly #address: string;
  readonly #fetch: Fetch;
  readonly #open = new Set<AbortController>();

  constructor(endpoint: Endpoint, address: string, fetch: Fetch) {
    this.#origin = endpoint.origin;
    this.#address = address;
    this.#fetch = fetch;
  }

  close(): void {
    for (const stop of this.#open) stop.abort(fault("broken", this.#address, new Error("the client was closed")));
  }

  async send(message: Message): Promise<Answer> {
    const stop = new AbortController();
    const abort = () => stop.abort(message.signal?.reason);
    message.signal?.addEventListener("abort", abort);
    this.#open.add(stop);
    const end = () => {
      message.signal?.removeEventListener("abort", abort);
      this.#open.delete(stop);
      stop.abort();
    };
    const pause = new Pause(message.silenceMs, () => stop.abort(fault("silent", this.#address, undefined)));
    const upload = message.content === undefined ? undefined : new Upload(message.content, pause);
    try {
      const response = await this.#fetch(new URL(message.target, this.#origin), {
        method: message.method,
        headers: message.headers,
        signal: stop.signal,
        redirect: "error",
        ...(upload && { body: upload.body as RequestInit["body"] & object, duplex: "half" as const }),
      });
      const header = (name: string) => response.headers.get(name) ?? undefined;
      return { status: response.status, header, body: this.#pieces(response, message, stop, end), discard: end };
    } catch (error) {
      const judged = upload?.failed ? upload.failed.error : this.#judge(error, message, stop.signal);
      end();
      throw judged;
    } finally {
      pause.end();
    }
  }

  async *#pieces(
    response: Response,
    message: Message,
    stop: AbortController,
    end: () => void,
  ): AsyncGenerator<Uint8Array> {
    const reader = response.body?.getReader();
    const silence = () => fault("silent", this.#address, undefined);
    try {
      while (reader) {
        const next = await within(reader.read(), message.silenceMs, silence);
        if (next.done) return;
        yield next.value;
      }
    } catch (error) {
      throw this.#judge(error, message, stop.signal);
    } finally {
      end();
    }
  }

  #judge(error: unknown, message: Message, stop: AbortSignal): unknown {
    if (message.signal?.aborted) return message.signal.reason;
    if (error instanceof ConnectionError) return error;
    if (stop.reason instanceof ConnectionError) return stop.reason;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const code = (cause as { code?: string }).code ?? "";
    if (UNREACHABLE.includes(code)) return fault("unreachable", this.#address, cause);
    return fault(code.endsWith("_TIMEOUT") ? "silent" : "broken", this.#address, cause);
  }
}

/** Does something when nothing has moved for a time. */
class Pause {
  readonly #silenceMs: number;
  readonly #act: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;

  constructor(silenceMs: number, act: () => void) {
    this.#silenceMs = silenceMs;
    this.#act = act;
    this.moved();
  }

  moved(): void {
    clearTimeout(this.#timer);
    // An answer may come while content is still sent.
    if (this.#silenceMs > 0 && !this.#isOver) this.#timer = setTimeout(this.#act, this.#silenceMs);
  }

  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }
}

/** Content as `fetch` takes it. */
class Upload {
  readonly body: Uint8Array | ReadableStream<Uint8Array>;
  /** What the caller's own stream threw: the caller's to see, and no fault of the connection. */
  failed: { error: unknown } | undefined;

  constructor(content: Uint8Array | AsyncIterable<Uint8Array>, pause: Pause) {
    if (content instanceof Uint8Array) {
      this.body = content;
      return;
    }
    const source = content[Symbol.asyncIterator]();
    this.body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        try {
          let next = await source.next();
          while (!next.done && next.value.length === 0) next = await source.next();
          pause.moved();
          if (next.done) controller.close();
          else controller.enqueue(next.value);
        } catch (error) {
          this.failed = { error };
          controller.error(error);
        }
      },
      cancel: async () => {
        await source.return?.();
      },
    });
  }
}
