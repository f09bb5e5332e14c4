// One request and its answer over whatever there is: src/channel/node.ts or src/channel/fetch.ts.

import { ConnectionError, type ConnectionFault } from "../errors.ts";

/** What can be sent as content. */
export type Content = string | Uint8Array | AsyncIterable<Uint8Array>;

/** A request as it is sent. */
export interface Message {
  method: string;
  /** Path and query. */
  target: string;
  headers: Record<string, string>;
  content?: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** How long nothing may move, in milliseconds; 0 for as long as it likes. */
  silenceMs: number;
  signal: AbortSignal | undefined;
}

/** An answer whose body is still to come: it is iterated, or discarded. */
export interface Answer {
  status: number;
  header(name: string): string | undefined;
  /** The pieces of its body; throws `ConnectionError` where it breaks off or is silent. */
  body: AsyncIterable<Uint8Array>;
  discard(): void;
}

/** A way to a server. */
export interface Channel {
  /** Throws `ConnectionError`, what the signal was aborted with, or what `content` threw. */
  send(message: Message): Promise<Answer>;
  /** Ends all connections. */
  close(): void;
}

/** Says what happened to a connection. */
export function fault(kind: ConnectionFault, at: string, cause: unknown): ConnectionError {
  const reason = cause instanceof Error && cause.message !== "" ? `: ${cause.message}` : "";
  const said = {
    unreachable: [
      `no server answers at ${at}${reason}`,
      "start one with `atoll serve`, or say where it is with ATOLL_HOST",
    ],
    broken: [`the connection to ${at} broke${reason}`, "look how things are before asking again"],
    silent: [`the server at ${at} says nothing`, "look how things are before asking again"],
  } as const;
  const [message, nextStep] = said[kind];
  return new ConnectionError(kind, message, nextStep, { cause });
}

/** The value of a promise, or what `give` makes if that takes too long. */
export async function within<T>(promise: Promise<T>, silenceMs: number, give: () => Error): Promise<T> {
  if (silenceMs === 0) return promise;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(give()), silenceMs);
  });
  try {
    return await Promise.race([promise, silence]);
  } finally {
    clearTimeout(timer);
  }
}
