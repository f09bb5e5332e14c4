// The commands of a sandbox.

import { toHex } from "./bytes.ts";
import type { Content } from "./channel/channel.ts";
import { ApprovalPendingError, ConflictError, WrongStateError } from "./errors.ts";
import { Exec, WAIT_MS, type WaitOptions } from "./exec.ts";
import type { ExecResult } from "./result.ts";
import { delay, type Request, SILENCE_MS, type Transport } from "./transport.ts";
import type { Command, ExecInfo, Path, Schemas } from "./types.ts";

/** Longest that the server waits in one request. */
const WAIT_MS_MAX = 3_600_000;
/** How long to pause before a command is asked for again whose approval is pending. */
const ASK_AGAIN_MS = 500;

type Described = Schemas["StartExec"];

/** How a command is started: what the API takes beside the command itself. */
export type StartOptions = Omit<Described, "command" | "shell" | "directory" | "onDisconnect"> & {
  /** Where it starts; the sandbox's working directory where nothing is said. */
  directory?: Path;
  /** How long it may wait for somebody who approves it, if that has to be; half a minute at least. */
  approvalTimeoutMs?: number;
  /** Stops the request; a command that was started goes on. */
  signal?: AbortSignal;
};

/** How a command is run to its end. */
export type ExecOptions = Omit<StartOptions, "stdin" | "terminal"> & {
  /** What it reads; nothing if absent. */
  input?: Content;
  /** Whether it is killed where the connection is gone before its end; `go_on` if absent. */
  onDisconnect?: Described["onDisconnect"];
  /** Called with its output as it comes; half of a character waits for its rest. */
  onStdout?: (text: string, bytes: Uint8Array) => void;
  /** The same for standard error. */
  onStderr?: (text: string, bytes: Uint8Array) => void;
  /** Throw `CommandFailedError` unless it exits with 0. */
  check?: boolean;
};

export class Execs {
  readonly #transport: Transport;
  readonly #sandboxPath: string;
  readonly #path: string;

  /** @internal */
  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport;
    this.#sandboxPath = sandboxPath;
    this.#path = `${sandboxPath}/execs`;
  }

  /** Starts a command; returns at once. It is started once, also where the connection breaks. */
  async start(command: Command, options: StartOptions = {}): Promise<Exec> {
    const { signal, approvalTimeoutMs, ...fields } = options;
    const json = request(command, fields);
    return this.#exec(await this.#ask<ExecInfo>({ json, isRepeatable: true, signal }, approvalTimeoutMs));
  }

  /** All that the sandbox remembers, in the order of their start. */
  async list(): Promise<Exec[]> {
    const { execs } = await this.#transport.json<Schemas["Execs"]>({ method: "GET", path: this.#path });
    return execs.map((info) => this.#exec(info));
  }

  /** The command of this id. */
  async get(id: string): Promise<Exec> {
    return this.#exec(await this.#transport.json({ method: "GET", path: `${this.#path}/${encodeURIComponent(id)}` }));
  }

  /** @internal Runs a command to its end: `Sandbox.exec`. */
  async run(command: Command, options: ExecOptions): Promise<ExecResult> {
    const { signal, check, input, onStdout, onStderr, approvalTimeoutMs, ...fields } = options;
    const ending: WaitOptions = { check, signal };
    if (input !== undefined || onStdout || onStderr) {
      const more = { ...(input !== undefined && { stdin: "pipe" as const }), approvalTimeoutMs, signal };
      const started = await this.start(command, { ...fields, ...more });
      await Promise.all([feed(started, input), tell(started, options)]);
      return started.wait(ending);
    }
    // One that is to end with the connection has one connection.
    const isKilled = fields.onDisconnect === "kill";
    const waitMs = isKilled ? WAIT_MS_MAX : WAIT_MS;
    const asked = {
      query: { wait_ms: waitMs },
      json: request(command, fields),
      isRepeatable: !isKilled,
      silenceMs: waitMs + SILENCE_MS,
      signal,
    };
    const result = await this.#ask<Schemas["ExecResult"]>(asked, approvalTimeoutMs);
    return this.#exec(result.exec).finish(result, ending);
  }

  /** Asks for a command, and again for as long as its approval is pending and that may take. */
  async #ask<T>(asked: Omit<Request, "method" | "path">, approvalTimeoutMs = 0): Promise<T> {
    const end = Date.now() + approvalTimeoutMs;
    for (;;) {
      try {
        return await this.#transport.json<T>({ method: "POST", path: this.#path, ...asked });
      } catch (error) {
        if (!(error instanceof ApprovalPendingError) || Date.now() + ASK_AGAIN_MS >= end) throw error;
        await delay(ASK_AGAIN_MS, asked.signal);
      }
    }
  }

  #exec(info: ExecInfo): Exec {
    return new Exec(this.#transport, this.#sandboxPath, info);
  }
}

/** What the API takes. The id makes it safe to send again. */
function request(command: Command, fields: object): object {
  const what = typeof command === "string" ? { shell: command } : { command };
  return { id: newExecId(), ...fields, ...what };
}

function newExecId(): string {
  return `exe_${toHex(crypto.getRandomValues(new Uint8Array(10)))}`;
}

async function feed(exec: Exec, input: Content | undefined): Promise<void> {
  if (input === undefined) return;
  try {
    await exec.feedAll(input);
  } catch (error) {
    // It has ended, or closed its input, without having read all of it: as in a pipe.
    if (!(error instanceof WrongStateError || error instanceof ConflictError)) throw error;
  }
}

async function tell(exec: Exec, { onStdout, onStderr, signal }: ExecOptions): Promise<void> {
  if (!onStdout && !onStderr) return;
  for await (const event of exec.events({ ...(signal && { signal }) })) {
    if (event.kind !== "output") continue;
    const listener = event.stream === "stdout" ? onStdout : onStderr;
    listener?.(event.text, event.bytes);
  }
}
