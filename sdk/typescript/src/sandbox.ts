// A sandbox, and its sessions.

import { NotFoundError } from "./errors.ts";
import { type EventOptions, follow } from "./events.ts";
import type { Exec } from "./exec.ts";
import { type ExecOptions, Execs, type StartOptions } from "./execs.ts";
import { Files } from "./files.ts";
import { Git } from "./git.ts";
import type { ExecResult } from "./result.ts";
import { type ForkOptions, type Forks, fork, restore, type Snapshot, type SnapshotOptions, take } from "./snapshots.ts";
import { type Request, SILENCE_MS, type Transport } from "./transport.ts";
import type {
  Archived,
  Command,
  Event,
  Budget,
  Lifecycle,
  Missed,
  NetworkPolicy,
  Port,
  Preview,
  SandboxHealth,
  SandboxInfo,
  Schemas,
  ServiceStatus,
  Stream,
  TerminalSize,
  DenialPage,
  Timeline,
  Usage,
  Visibility,
  Waited,
} from "./types.ts";

/** How long something is waited for if nothing is said. */
const WAIT_MS_USUAL = 60_000;

/** How long something is waited for. */
export interface WaitForOptions {
  /** In milliseconds; a minute if absent. `TimedOutError` is thrown when it is over. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** A sandbox. With `await using` it is deleted at the end, if it was made by `create` or a fork. */
export class Sandbox {
  /** What is known of it; as it was when the server last said. */
  info: SandboxInfo;
  /** Its commands. */
  readonly execs: Execs;
  /** Its files. */
  readonly files: Files;
  /** Its git repositories. */
  readonly git: Git;
  readonly #transport: Transport;
  readonly #path: string;
  readonly #isOwn: boolean;

  /** @internal */
  constructor(transport: Transport, info: SandboxInfo, isOwn = false) {
    this.#transport = transport;
    this.#path = `/v1/sandboxes/${encodeURIComponent(info.id)}`;
    this.#isOwn = isOwn;
    this.info = info;
    this.execs = new Execs(transport, this.#path);
    this.files = new Files(transport, this.#path);
    this.git = new Git(transport, this.#path);
  }

  /** Its id, which nothing else ever has. */
  get id(): string {
    return this.info.id;
  }

  /** Its name, if it has one. */
  get name(): string | undefined {
    return this.info.name;
  }

  /** Asks the server how it is. */
  async refresh(): Promise<SandboxInfo> {
    return this.#took({ method: "GET", path: "" });
  }

  /** Lets it run again after a stop; the same as `resume`. */
  async start(): Promise<SandboxInfo> {
    return this.resume();
  }

  /** Lets it run again, whether it was paused or stopped. */
  async resume(): Promise<SandboxInfo> {
    return this.#took({ method: "POST", path: "/resume" });
  }

  /** Freezes its processes; they keep their memory. */
  async pause(): Promise<SandboxInfo> {
    return this.#took({ method: "POST", path: "/pause" });
  }

  /** Asks its processes to end, and kills those that have not after a grace. */
  async stop(): Promise<SandboxInfo> {
    return this.#took({ method: "POST", path: "/stop" });
  }

  /** Kills its processes. */
  async kill(): Promise<SandboxInfo> {
    return this.#took({ method: "POST", path: "/kill" });
  }

  /**
   * Puts its files into the server's object storage, and takes them away from the server; `resume` brings them back. It
   * has to be stopped, or is stopped first if `stop` says so.
   */
  async archive({ stop }: { stop?: boolean } = {}): Promise<Archived> {
    return this.#transport.json({ method: "POST", path: `${this.#path}/archive`, query: { stop }, silenceMs: 0 });
  }

  /** Deletes it; on return its name is free. The archive of one that is archived goes too, unless it is kept. */
  async delete({ keepArchive }: { keepArchive?: boolean } = {}): Promise<SandboxInfo> {
    return this.#took({ method: "DELETE", path: "", query: { keep_archive: keepArchive } });
  }

  /**
   * Takes a snapshot of its files, to go back to and to make others of. If it runs it stands still meanwhile, and
   * notices nothing but the time: `info` says how much, and how it was done.
   */
  async snapshot(options: SnapshotOptions = {}): Promise<Snapshot> {
    return take(this.#transport, this.#path, options);
  }

  /** Takes a snapshot, which stays, and makes sandboxes of it; see `Snapshot.fork`. */
  async fork(options: ForkOptions & { snapshot?: Omit<SnapshotOptions, "signal"> } = {}): Promise<Forks> {
    return fork(this.#transport, this.#path, options);
  }

  /** Puts it back to a snapshot: what it has kept since is gone. If it runs, it is started anew. */
  async restore(snapshot: Snapshot | string): Promise<SandboxInfo> {
    return this.#took(restore(snapshot));
  }

  /** Sets the times of its lifecycle, and begins its lease anew. */
  async setLifecycle(lifecycle: Lifecycle): Promise<SandboxInfo> {
    return this.#took({ method: "PUT", path: "/lifecycle", json: lifecycle });
  }

  /** Gives it another budget, which may be empty. What it has used counts on. */
  async setBudget(budget: Budget): Promise<SandboxInfo> {
    return this.#took({ method: "PUT", path: "/budget", json: budget });
  }

  /** Tells how it is, as it says itself and as it is seen from outside. */
  async health(): Promise<SandboxHealth> {
    return this.#transport.json({ method: "GET", path: `${this.#path}/health` });
  }

  /** Tells how long the stages of its creation took. */
  async timeline(): Promise<Timeline> {
    return this.#transport.json({ method: "GET", path: `${this.#path}/timeline` });
  }

  /** What it has used in its whole life, until now. */
  async usage(): Promise<Usage> {
    return this.#transport.json({ method: "GET", path: `${this.#path}/usage` });
  }

  /** What it was refused on its way out since the server started, behind the `seq` of a denial. */
  async denials(options: { cursor?: number } = {}): Promise<DenialPage> {
    return this.#transport.json({ method: "GET", path: `${this.#path}/denials`, query: { cursor: options.cursor } });
  }

  /** What it may reach; nothing where it was made without a network. */
  async network(): Promise<NetworkPolicy | undefined> {
    const path = `${this.#path}/network`;
    return (await this.#transport.json<NetworkPolicy | null>({ method: "GET", path })) ?? undefined;
  }

  /**
   * Has it reach this and nothing else, at once: connections that are not allowed any more are broken off.
   * Only a sandbox that was made with a network has one.
   */
  async setNetwork(policy: NetworkPolicy): Promise<NetworkPolicy> {
    return this.#transport.json({ method: "PUT", path: `${this.#path}/network`, json: policy, isRepeatable: true });
  }

  /** What happens to it, from now on or behind the event of a number. It ends when the caller stops asking. */
  events(options: EventOptions = {}): AsyncGenerator<Event | Missed> {
    return follow(this.#transport, this.id, options);
  }

  /**
   * Runs a command to its end. A text is run by a shell, a list is a program and its arguments.
   *
   * After `timeoutMs` it is killed with all that it started, and what it printed is given. It is never
   * run twice, also where connections break; if nobody knows how it ended, `LostError` is thrown.
   *
   * One that has to be approved (`execAsk`) waits for somebody who decides, half a minute or, if that is longer,
   * `approvalTimeoutMs`. Then `ApprovalPendingError` is thrown, or before `ApprovalDeniedError` or
   * `ApprovalExpiredError`.
   */
  async exec(command: Command, options: ExecOptions = {}): Promise<ExecResult> {
    return this.execs.run(command, options);
  }

  /** A shell of this name, which keeps directory, variables and functions from one command to the next. */
  session(name: string): Session {
    return new Session(this, name);
  }

  /**
   * Starts a command in a terminal: `write` types, `events` or `logs` is what it shows, `resize`
   * resizes. It goes on when nobody looks; `execs.get` finds it again.
   */
  async terminal(
    command: Command = ["/bin/sh"],
    options: Omit<StartOptions, "terminal" | "stdin"> & Partial<TerminalSize> = {},
  ): Promise<Exec> {
    const { rows = 24, columns = 80, ...rest } = options;
    return this.execs.start(command, { ...rest, terminal: { rows, columns } });
  }

  /** The ports on which something listens or that are exposed. */
  async ports(): Promise<Port[]> {
    return (await this.#transport.json<Schemas["Ports"]>({ method: "GET", path: `${this.#path}/ports` })).ports;
  }

  /** Exposes a port; the answer's `url` is for browsers. */
  async expose(port: number, options: { visibility?: Visibility; expiresInMs?: number } = {}): Promise<Preview> {
    const path = `${this.#path}/ports/${port}/expose`;
    return this.#transport.json({ method: "POST", path, json: options, isRepeatable: true });
  }

  /** Takes a port back. */
  async unexpose(port: number): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: `${this.#path}/ports/${port}/expose` });
  }

  /** Waits until something listens on a port. */
  async waitForPort(port: number, options: WaitForOptions = {}): Promise<Waited> {
    return this.#wait({ port }, options);
  }

  /** Waits until a command prints a line in which this regular expression, in Rust's syntax, is found. */
  async waitForLog(
    exec: Exec | string,
    pattern: string,
    options: WaitForOptions & { stream?: Stream } = {},
  ): Promise<Waited> {
    const { stream, ...rest } = options;
    const id = typeof exec === "string" ? exec : exec.id;
    return this.#wait({ log: { exec: id, pattern, ...(stream && { stream }) } }, rest);
  }

  /** Waits until a port answers HTTP with this status, or with any below 500. */
  async waitForHttp(port: number, options: WaitForOptions & { path?: string; status?: number } = {}): Promise<Waited> {
    const { timeoutMs, signal, ...http } = options;
    return this.#wait(
      { http: { port, ...http } },
      { ...(timeoutMs !== undefined && { timeoutMs }), ...(signal && { signal }) },
    );
  }

  /** How the services are that it was made with. */
  async services(): Promise<ServiceStatus[]> {
    return (await this.#transport.json<Schemas["Services"]>({ method: "GET", path: `${this.#path}/services` }))
      .services;
  }

  /** Starts a service anew. */
  async restartService(name: string): Promise<void> {
    await this.#transport.bytes({ method: "POST", path: `${this.#path}/services/${encodeURIComponent(name)}/restart` });
  }

  /** Deletes it if it was made by `create` or a fork; one that was there is left as it is. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOwn) return;
    await this.delete().catch((error: unknown) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
  }

  #wait(what: Schemas["WaitFor"], options: WaitForOptions): Promise<Waited> {
    const timeoutMs = options.timeoutMs ?? WAIT_MS_USUAL;
    return this.#transport.json({
      method: "POST",
      path: `${this.#path}/wait`,
      json: { for: what, timeoutMs },
      isRepeatable: true,
      silenceMs: timeoutMs + SILENCE_MS,
      signal: options.signal,
    });
  }

  async #took(request: Request): Promise<SandboxInfo> {
    this.info = await this.#transport.json({ ...request, path: this.#path + request.path });
    return this.info;
  }
}

/** A shell of a sandbox that keeps what the command before left. */
export class Session {
  readonly name: string;
  readonly #sandbox: Sandbox;

  /** @internal */
  constructor(sandbox: Sandbox, name: string) {
    this.#sandbox = sandbox;
    this.name = name;
  }

  /** Runs shell text to its end, with the options of `Sandbox.exec`. */
  async exec(shell: string, options: Omit<ExecOptions, "session"> = {}): Promise<ExecResult> {
    return this.#sandbox.exec(shell, { ...options, session: this.name });
  }

  /** Starts shell text, with the options of `Execs.start`. */
  async start(shell: string, options: Omit<StartOptions, "session"> = {}): Promise<Exec> {
    return this.#sandbox.execs.start(shell, { ...options, session: this.name });
  }
}
