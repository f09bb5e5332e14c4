// One command in a sandbox: what it prints, what it is fed, how it ends.

import { collect } from "./bytes.ts";
import type { Content } from "./channel/channel.ts";
import {
  CommandFailedError,
  ConnectionError,
  LostError,
  OutputDroppedError,
  StillRunningError,
  apiError,
} from "./errors.ts";
import { ExecResult, outputBytes, type Printed, printed } from "./result.ts";
import { Perseverance, type Request, SILENCE_MS, type Transport } from "./transport.ts";
import type { ExecInfo, Schemas, Signal, SignalTarget, Stream, TerminalSize } from "./types.ts";
import { fromWire } from "./wire.ts";

/** Longest that one request waits; a longer wait is several of them. */
export const WAIT_MS = 30_000;

/** Something that happened to a command. */
export type ExecEvent =
  | { kind: "started"; exec: ExecInfo }
  /** It printed something. `text` has whole characters: half of one waits for its rest. */
  | { kind: "output"; stream: Stream; offset: number; bytes: Uint8Array; text: string }
  /** Bytes of a stream from one offset to another are not kept any more. */
  | { kind: "dropped"; stream: Stream; from: number; to: number }
  | { kind: "ended"; exec: ExecInfo };

/** From where on a command is followed. */
export interface FollowOptions {
  /** Offset of the first byte of standard output; 0 if absent. */
  stdout?: number;
  /** Offset of the first byte of standard error; 0 if absent. */
  stderr?: number;
  /** Whether to wait for what is not printed yet; true if absent. */
  follow?: boolean;
  signal?: AbortSignal;
}

/** Which output is read. */
export interface LogOptions {
  /** Which stream; `stdout` if absent. */
  stream?: Stream;
  /** Offset of the first byte; 0 if absent. */
  offset?: number;
  /** Whether to wait for what is not printed yet; false if absent. */
  follow?: boolean;
  signal?: AbortSignal;
}

/** How a wait for the end goes. */
export interface WaitOptions {
  /** Throw `StillRunningError` after so many milliseconds; it is not ended by that. */
  timeoutMs?: number | undefined;
  /** Throw `CommandFailedError` unless it exits with 0. */
  check?: boolean | undefined;
  signal?: AbortSignal | undefined;
}

/** A command that was started. It goes on whether or not anybody holds this. */
export class Exec {
  /** What is known of it; as it was when the server last said. */
  info: ExecInfo;
  readonly #transport: Transport;
  readonly #path: string;
  #fedBytes: number;
  #writing: Promise<unknown> = Promise.resolve();

  /** @internal */
  constructor(transport: Transport, sandboxPath: string, info: ExecInfo) {
    this.#transport = transport;
    this.#path = `${sandboxPath}/execs/${encodeURIComponent(info.id)}`;
    this.#fedBytes = info.fedBytes;
    this.info = info;
  }

  /** Its id. */
  get id(): string {
    return this.info.id;
  }

  /** Asks the server how it is. */
  async refresh(): Promise<ExecInfo> {
    return this.#took({ method: "GET", path: this.#path });
  }

  /** Waits for its end; gives how it ended and what it printed. Throws `LostError` if nobody knows. */
  async wait(options: WaitOptions = {}): Promise<ExecResult> {
    const until = options.timeoutMs === undefined ? Infinity : Date.now() + options.timeoutMs;
    for (;;) {
      const waitMs = Math.max(0, Math.min(WAIT_MS, until - Date.now()));
      const result = await this.#transport.json<Schemas["ExecResult"]>({
        method: "GET",
        path: `${this.#path}/result`,
        query: { wait_ms: Math.ceil(waitMs) },
        silenceMs: waitMs + SILENCE_MS,
        signal: options.signal,
      });
      if (result.exec.state !== "running") return this.#result(result, options);
      if (Date.now() >= until) throw new StillRunningError(this.id);
    }
  }

  /** @internal What `wait` gives, of an answer that came already. */
  async finish(result: Schemas["ExecResult"], options: WaitOptions): Promise<ExecResult> {
    return result.exec.state === "running" ? this.wait(options) : this.#result(result, options);
  }

  async #result(result: Schemas["ExecResult"], options: WaitOptions): Promise<ExecResult> {
    this.info = result.exec;
    if (result.exec.lost) throw apiError(result.exec.lost);
    const stdout = await this.#printed("stdout", result, options.signal);
    const stderr = await this.#printed("stderr", result, options.signal);
    const ended = new ExecResult(result.exec, stdout, stderr, result.denials);
    if (options.check && !ended.ok) throw new CommandFailedError(ended);
    return ended;
  }

  /** All of a stream that is kept, of which an answer may have less. */
  async #printed(stream: Stream, result: Schemas["ExecResult"], signal?: AbortSignal): Promise<Printed> {
    const isAllKept = result.exec[stream].droppedBytes === 0;
    if (result[stream].droppedBytes === 0 || !isAllKept) return printed(result[stream]);
    return { bytes: await collect(this.logs({ stream, ...(signal && { signal }) })), droppedBytes: 0 };
  }

  /** What happens to it, from an offset on, to its end. A connection that breaks is made again. */
  async *events(options: FollowOptions = {}): AsyncGenerator<ExecEvent> {
    const at = { stdout: options.stdout ?? 0, stderr: options.stderr ?? 0 };
    const texts = { stdout: new Text(), stderr: new Text() };
    const perseverance = new Perseverance(this.#transport, options.signal);
    let hasStarted = false;
    for (;;) {
      try {
        const follow = options.follow === false ? { follow: false } : {};
        const request = { path: `${this.#path}/events`, query: { ...at, ...follow }, signal: options.signal };
        for await (const { event, data } of this.#transport.events(request)) {
          const said = fromWire(JSON.parse(data)) as never;
          if (event === "started") {
            this.info = said;
            if (!hasStarted) yield { kind: "started", exec: said };
            hasStarted = true;
          } else if (event === "output") {
            const { stream, offset, ...output } = said as { stream: Stream; offset: number } & Schemas["Output"];
            const bytes = outputBytes(output);
            at[stream] = offset + bytes.length;
            perseverance.progressed();
            yield { kind: "output", stream, offset, bytes, text: texts[stream].push(bytes) };
          } else if (event === "dropped") {
            const { stream, from, to } = said as Schemas["Dropped"];
            at[stream] = to;
            perseverance.progressed();
            yield* texts[stream].rest(stream, from);
            yield { kind: "dropped", stream, from, to };
          } else if (event === "ended") {
            this.info = said;
            yield* texts.stdout.rest("stdout", at.stdout);
            yield* texts.stderr.rest("stderr", at.stderr);
            yield { kind: "ended", exec: said };
            return;
          } else if (event === "lost") {
            throw apiError(said);
          } else if (event === "end") {
            // The server goes; whoever takes its place knows the rest.
            break;
          }
        }
        // Where no more was asked for than is there, that is all.
        if (options.follow === false) return;
        throw this.#transport.broke("the events ended before the command");
      } catch (error) {
        await perseverance.orThrow(error);
      }
    }
  }

  /** The same as `events()`. */
  [Symbol.asyncIterator](): AsyncGenerator<ExecEvent> {
    return this.events();
  }

  /**
   * The bytes of one stream, from an offset on. A connection that breaks is made again where it
   * broke; bytes that are not kept any more are an error.
   */
  async *logs(options: LogOptions = {}): AsyncGenerator<Uint8Array> {
    let offset = options.offset ?? 0;
    const perseverance = new Perseverance(this.#transport, options.signal);
    const stream = options.stream ?? "stdout";
    for (;;) {
      let isOpen = false;
      try {
        const { body } = await this.#transport.open({
          method: "GET",
          path: `${this.#path}/${stream}`,
          query: { offset, follow: options.follow ?? false },
          silenceMs: this.#transport.streamSilenceMs,
          signal: options.signal,
        });
        isOpen = true;
        for await (const piece of body) {
          offset += piece.length;
          perseverance.progressed();
          yield piece;
        }
        return;
      } catch (error) {
        const there = error instanceof LostError ? error.details.offset : undefined;
        if (there !== undefined) throw new OutputDroppedError(stream, offset, there, { cause: error });
        // A command may print nothing for long, and raw bytes have no heartbeat.
        if (isOpen && error instanceof ConnectionError && error.kind === "silent") perseverance.progressed();
        await perseverance.orThrow(error);
      }
    }
  }

  /** Feeds its standard input; returns when that has taken everything. */
  async write(data: Content): Promise<ExecInfo> {
    return this.#feed(data, true);
  }

  /** Ends its standard input. */
  async closeStdin(): Promise<ExecInfo> {
    return this.#feed("", false);
  }

  /** @internal Feeds this and ends standard input. */
  async feedAll(data: Content): Promise<ExecInfo> {
    return this.#feed(data, false);
  }

  /** Writes go one after the other, each at its offset, so that none is fed twice or too early. */
  #feed(data: Content, keepOpen: boolean): Promise<ExecInfo> {
    const feed = () =>
      this.#took({
        method: "POST",
        path: `${this.#path}/stdin`,
        query: { offset: this.#fedBytes, keep_open: keepOpen },
        content: data,
        headers: { "content-type": "application/octet-stream" },
        // What the command already has at this offset is left out.
        isRepeatable: true,
      });
    const fed = this.#writing.then(feed);
    this.#writing = fed.catch(() => {});
    return fed;
  }

  /** Sends a signal. */
  async signal(signal: Signal, options: { target?: SignalTarget } = {}): Promise<ExecInfo> {
    return this.#took({ method: "POST", path: `${this.#path}/signal`, json: { signal, ...options } });
  }

  /** Asks it to end, kills it and all that it started if it has not by then; gives how it ended. */
  async cancel(options: { signal?: Signal; graceMs?: number } = {}): Promise<ExecInfo> {
    const silenceMs = (options.graceMs ?? 5000) + SILENCE_MS;
    return this.#took({ method: "POST", path: `${this.#path}/cancel`, json: options, silenceMs });
  }

  /** Sets the size of its terminal. */
  async resize(size: TerminalSize): Promise<ExecInfo> {
    return this.#took({ method: "POST", path: `${this.#path}/resize`, json: size, isRepeatable: true });
  }

  /** Drops an ended command and what it printed from the list. */
  async forget(): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: this.#path });
  }

  async #took(request: Request): Promise<ExecInfo> {
    const info = await this.#transport.json<ExecInfo | undefined>(request);
    if (info) {
      this.info = info;
      this.#fedBytes = Math.max(this.#fedBytes, info.fedBytes);
    }
    return this.info;
  }
}

/** Text of a stream whose pieces may end within a character. */
class Text {
  readonly #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  push(bytes: Uint8Array): string {
    return this.#decoder.decode(bytes, { stream: true });
  }

  /** What is left of a character that never became whole, as an event without bytes. */
  *rest(stream: Stream, offset: number): Generator<ExecEvent> {
    const text = this.#decoder.decode();
    if (text !== "") yield { kind: "output", stream, offset, bytes: new Uint8Array(), text };
  }
}
