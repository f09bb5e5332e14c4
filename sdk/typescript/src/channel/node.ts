// HTTP by Node's own client: over unix sockets, and over TCP, where `fetch` gives up an answer
// that takes five minutes to begin.

import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as SecureAgent, request as httpsRequest } from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Endpoint } from "../endpoint.ts";
import { ConnectionError } from "../errors.ts";
import { type Answer, type Channel, fault, type Message, within } from "./channel.ts";

/** How long an idle connection is kept; the server keeps it for longer. */
const IDLE_MS = 10_000;

class Silence extends Error {}

export class NodeChannel implements Channel {
  readonly #endpoint: Endpoint;
  readonly #address: string;
  readonly #isSecure: boolean;
  readonly #agent: Agent | SecureAgent;

  constructor(endpoint: Endpoint, address: string) {
    this.#endpoint = endpoint;
    this.#address = address;
    this.#isSecure = endpoint.origin.protocol === "https:";
    const Kind = this.#isSecure ? SecureAgent : Agent;
    this.#agent = new Kind({ keepAlive: true, timeout: IDLE_MS });
  }

  close(): void {
    this.#agent.destroy();
  }

  send(message: Message): Promise<Answer> {
    const { socketPath, origin } = this.#endpoint;
    const { content, signal } = message;
    const headers: Record<string, string | number> = { ...message.headers };
    if (content instanceof Uint8Array) headers["content-length"] = content.byteLength;
    else if (content === undefined && message.method !== "GET") headers["content-length"] = 0;
    const tcp = { host: origin.hostname.replace(/^\[|\]$/g, ""), port: origin.port };
    return new Promise((resolve, reject) => {
      let isConnected = false;
      const request = (this.#isSecure ? httpsRequest : httpRequest)({
        ...(socketPath === undefined ? tcp : { socketPath }),
        method: message.method,
        path: message.target,
        headers,
        agent: this.#agent,
        timeout: message.silenceMs,
        ...(signal && { signal }),
      });
      request.on("socket", (socket) => {
        isConnected = !socket.connecting;
        if (socket.connecting) socket.once("connect", () => (isConnected = true));
      });
      let isAnswered = false;
      // From the answer on, silence is measured where its body is read.
      request.on("timeout", () => isAnswered || request.destroy(new Silence()));
      request.on("response", (answer) => {
        isAnswered = true;
        resolve(this.#answer(answer, message));
      });
      request.on("error", (error) => {
        const kind = !isConnected ? "unreachable" : error instanceof Silence ? "silent" : "broken";
        reject(signal?.aborted ? signal.reason : fault(kind, this.#address, error));
      });
      if (content === undefined || content instanceof Uint8Array) {
        request.end(content);
        return;
      }
      // What the caller's own stream throws is the caller's to see, not a fault of the connection.
      const source = Readable.from(content, { objectMode: false });
      source.on("error", reject);
      pipeline(source, request).catch(() => {});
    });
  }

  #answer(answer: IncomingMessage, message: Message): Answer {
    const header = (name: string): string | undefined => {
      const value = answer.headers[name];
      return Array.isArray(value) ? value[0] : value;
    };
    const discard = () => void answer.destroy();
    return { status: answer.statusCode ?? 0, header, body: this.#pieces(answer, message), discard };
  }

  async *#pieces(answer: IncomingMessage, { silenceMs, signal }: Message): AsyncGenerator<Uint8Array> {
    const pieces = answer[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
    const silence = () => fault("silent", this.#address, undefined);
    try {
      for (;;) {
        const next = await within(pieces.next(), silenceMs, silence);
        if (next.done) return;
        yield next.value;
      }
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof ConnectionError ? error : fault("broken", this.#address, error);
    } finally {
      answer.destroy();
    }
  }
}
