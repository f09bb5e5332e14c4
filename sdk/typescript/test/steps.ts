// Steps of scenarios, done by the SDK.

import { concat } from "../src/bytes.ts";
import { findEndpoint } from "../src/endpoint.ts";
import {
  type Approval,
  Atoll,
  type AtollOptions,
  AtollError,
  type AuditRecord,
  type Command,
  encodeOctets,
  type Event,
  Exec,
  Forks,
  NotFoundError,
  Sandbox,
  Snapshot,
} from "../src/index.ts";
import { Transport } from "../src/transport.ts";
import { fromWire } from "../src/wire.ts";
import { difference, plain } from "./compare.ts";
import { Proxy, waitUntil } from "./serving.ts";

const UNTIL_MS = 10_000;

export interface Step {
  do: string;
  on?: string;
  with?: Record<string, unknown>;
  gives?: unknown;
  fails?: unknown;
  as?: string;
  until?: true;
  while?: Step;
  meanwhile?: Step[];
  cut_after_bytes?: number[];
}

export interface Scenario {
  name: string;
  sandbox?: Record<string, unknown> | null;
  needs?: string[];
  steps: Step[];
}

// They come from a file, and the server judges them.
type Arguments = any;
interface Targets {
  client: Atoll;
  sandbox: Sandbox;
  exec: Exec;
  snapshot: Snapshot;
}

const commandOf = ({ command, shell, ...options }: Arguments): [Command, Arguments] => [shell ?? command, options];

/** How each verb is called with named arguments. */
const VERBS: Record<string, (on: Targets, given: Arguments) => unknown> = {
  create: ({ client }, given) => client.create(given),
  get: ({ client }, { sandbox }) => client.get(sandbox),
  get_or_create: ({ client }, { name, ...options }) => client.getOrCreate(name, options),
  list: ({ client }, given) => client.list(given),
  capabilities: ({ client }) => client.capabilities(),
  health: ({ client }) => client.health(),
  "keys.create": ({ client }, { scope, ...options }) => client.keys.create(scope, options),
  "keys.list": ({ client }) => client.keys.list(),
  "keys.revoke": ({ client }, { key }) => client.keys.revoke(key),
  "secrets.set": ({ client }, { name, value }) =>
    client.secrets.set(name, value.isWellFormed() ? value : encodeOctets(value)),
  "secrets.list": ({ client }) => client.secrets.list(),
  "secrets.delete": ({ client }, { name }) => client.secrets.delete(name),
  "approvals.list": ({ client }, given) => client.approvals.list(given),
  "approvals.get": ({ client }, { approval }) => client.approvals.get(approval),
  "approvals.approve": ({ client }, { approval, ...options }) => client.approvals.approve(approval, options),
  "approvals.deny": ({ client }, { approval, ...options }) => client.approvals.deny(approval, options),
  usage: ({ sandbox }) => sandbox.usage(),
  "usage_of_all": ({ client }, given) => client.usage(given),
  "images.list": ({ client }) => client.images.list(),
  "images.get": ({ client }, { image }) => client.images.get(image),
  "images.pull": ({ client }, { image, ...options }) => client.images.pull(image, options),
  "images.delete": ({ client }, { image }) => client.images.delete(image),
  "images.prune": ({ client }, given) => client.images.prune(given),
  "volumes.create": ({ client }, { name, ...options }) => client.volumes.create(name, options),
  "volumes.list": ({ client }, given) => client.volumes.list(given),
  "volumes.get": ({ client }, { volume }) => client.volumes.get(volume),
  "volumes.export": ({ client }, { volume }) => client.volumes.export(volume),
  "volumes.delete": ({ client }, { volume }) => client.volumes.delete(volume),
  "audit.list": ({ client }, given) => client.audit.list(given),
  network: ({ sandbox }) => sandbox.network(),
  set_network: ({ sandbox }, policy) => sandbox.setNetwork(policy),
  denials: ({ sandbox }, given) => sandbox.denials(given),
  refresh: ({ sandbox }) => sandbox.refresh(),
  start: ({ sandbox }) => sandbox.start(),
  pause: ({ sandbox }) => sandbox.pause(),
  resume: ({ sandbox }) => sandbox.resume(),
  stop: ({ sandbox }) => sandbox.stop(),
  kill: ({ sandbox }) => sandbox.kill(),
  delete: ({ sandbox }) => sandbox.delete(),
  set_budget: ({ sandbox }, given) => sandbox.setBudget(given.budget),
  set_lifecycle: ({ sandbox }, given) => sandbox.setLifecycle(given),
  snapshot: ({ sandbox }, given) => sandbox.snapshot(given),
  fork: ({ sandbox }, given) => sandbox.fork(given),
  restore: ({ sandbox }, { snapshot }) => sandbox.restore(snapshot),
  "snapshots.list": ({ client }, given) => client.snapshots.list(given),
  "snapshots.get": ({ client }, { snapshot }) => client.snapshots.get(snapshot),
  "snapshots.delete": ({ client }, { snapshot }) => client.snapshots.delete(snapshot),
  "snapshot.fork": ({ snapshot }, given) => snapshot.fork(given),
  "snapshot.diff": ({ snapshot }, given) => snapshot.diff(given),
  "snapshot.delete": ({ snapshot }) => snapshot.delete(),
  archive: ({ sandbox }, given) => sandbox.archive(given),
  "archives.create": ({ client }, { snapshot }) => client.archives.create(snapshot),
  "archives.get": ({ client }, { archive }) => client.archives.get(archive),
  "archives.list": ({ client }, given) => client.archives.list(given),
  "archives.restore": ({ client }, { archive }) => client.archives.restore(archive),
  "archives.delete": ({ client }, { archive }) => client.archives.delete(archive),
  timeline: ({ sandbox }) => sandbox.timeline(),
  exec: ({ sandbox }, { session, ...given }) => {
    const [command, options] = commandOf(given);
    return session === undefined
      ? sandbox.exec(command, options)
      : sandbox.session(session).exec(command as string, options);
  },
  terminal: ({ sandbox }, given) => sandbox.terminal(...commandOf(given)),
  ports: ({ sandbox }) => sandbox.ports(),
  expose: ({ sandbox }, { port, ...options }) => sandbox.expose(port, options),
  unexpose: ({ sandbox }, { port }) => sandbox.unexpose(port),
  wait_for_port: ({ sandbox }, { port, ...options }) => sandbox.waitForPort(port, options),
  wait_for_log: ({ sandbox }, { exec, pattern, ...options }) => sandbox.waitForLog(exec, pattern, options),
  wait_for_http: ({ sandbox }, { port, ...options }) => sandbox.waitForHttp(port, options),
  services: ({ sandbox }) => sandbox.services(),
  restart_service: ({ sandbox }, { name }) => sandbox.restartService(name),
  "execs.start": ({ sandbox }, given) => sandbox.execs.start(...commandOf(given)),
  "execs.list": ({ sandbox }) => sandbox.execs.list(),
  "execs.get": ({ sandbox }, { exec }) => sandbox.execs.get(exec),
  "exec.refresh": ({ exec }) => exec.refresh(),
  "exec.wait": ({ exec }, given) => exec.wait(given),
  "exec.logs": ({ exec }, given) => exec.logs(given),
  "exec.write": ({ exec }, { data }) => exec.write(encodeOctets(data)),
  "exec.close_stdin": ({ exec }) => exec.closeStdin(),
  "exec.signal": ({ exec }, { signal, ...options }) => exec.signal(signal, options),
  "exec.cancel": ({ exec }, given) => exec.cancel(given),
  "exec.resize": ({ exec }, given) => exec.resize(given),
  "exec.forget": ({ exec }) => exec.forget(),
  "files.read": ({ sandbox }, { path, ...options }) => sandbox.files.read(path, options),
  "files.read_text": ({ sandbox }, { path, ...options }) => sandbox.files.readText(path, options),
  "files.stream": ({ sandbox }, { path, ...options }) => sandbox.files.stream(path, options),
  "files.write": ({ sandbox }, { path, data, ...options }) => sandbox.files.write(path, encodeOctets(data), options),
  "files.list": ({ sandbox }, { path, ...options }) => sandbox.files.list(path, options),
  "files.stat": ({ sandbox }, { path, ...options }) => sandbox.files.stat(path, options),
  "files.exists": ({ sandbox }, { path }) => sandbox.files.exists(path),
  "files.make_directory": ({ sandbox }, { path, ...options }) => sandbox.files.makeDirectory(path, options),
  "files.remove": ({ sandbox }, { path, ...options }) => sandbox.files.remove(path, options),
  "files.move": ({ sandbox }, { from, to, ...options }) => sandbox.files.move(from, to, options),
  "files.set_mode": ({ sandbox }, { path, mode }) => sandbox.files.setMode(path, mode),
  "files.edit": ({ sandbox }, { path, replacements, ...one }) => sandbox.files.edit(path, replacements ?? one),
  "files.glob": ({ sandbox }, { path, pattern, ...options }) => sandbox.files.glob(path, pattern, options),
  "files.grep": ({ sandbox }, { path, pattern, ...options }) => sandbox.files.grep(path, pattern, options),
  "git.clone": ({ sandbox }, { url, path, ...options }) => sandbox.git.clone(url, path, options),
  "git.status": ({ sandbox }, { path }) => sandbox.git.status(path),
  "git.diff": ({ sandbox }, { path, ...options }) => sandbox.git.diff(path, options),
  "git.checkout": ({ sandbox }, { path, target, ...options }) => sandbox.git.checkout(path, target, options),
};

/** Plays scenarios against a server. */
export class Player {
  readonly #options: AtollOptions;
  readonly #target: { path: string } | { port: number; host: string };
  readonly #client: Atoll;
  readonly #made: Sandbox[] = [];
  readonly #saved = new Map<string, unknown>();

  constructor(options: AtollOptions, target: { path: string } | { port: number; host: string }) {
    this.#options = options;
    this.#target = target;
    this.#client = new Atoll(options);
  }

  /** Does the steps one by one. The site of `internet.py` is at another port each time. */
  async play(described: Scenario, port: number): Promise<void> {
    const scenario = JSON.parse(JSON.stringify(described).replaceAll("{port}", String(port))) as Scenario;
    try {
      let sandbox: Sandbox | undefined;
      if (scenario.sandbox !== null) {
        sandbox = await this.#client.create(fromWire(scenario.sandbox ?? {}) as object);
        this.#made.push(sandbox);
        this.#saved.set("sandbox", sandbox);
      }
      for (const [index, step] of scenario.steps.entries()) {
        const problem = await this.#step(step, sandbox).catch((error: unknown) => {
          throw new Error(`step ${index + 1}, ${step.do}`, { cause: error });
        });
        if (problem !== undefined) throw new Error(`step ${index + 1}, ${step.do}: ${problem}`);
      }
    } finally {
      for (const one of this.#made) {
        await one.delete().catch((error: unknown) => {
          if (!(error instanceof NotFoundError)) throw error;
        });
      }
      await this.#client.close();
    }
  }

  async #step(step: Step, sandbox: Sandbox | undefined): Promise<string | undefined> {
    if (!step.until) return this.#once(step, sandbox);
    let problem: string | undefined;
    const look = async () => (problem = await this.#once(step, sandbox)) === undefined;
    return waitUntil(step.do, look, UNTIL_MS).then(
      () => undefined,
      () => problem,
    );
  }

  async #once(step: Step, sandbox: Sandbox | undefined): Promise<string | undefined> {
    const cuts = step.cut_after_bytes;
    const proxy = cuts && (await Proxy.start(this.#target, cuts));
    let result: unknown;
    try {
      const going = this.#do(step, sandbox, proxy?.host);
      if (step.meanwhile) await this.#meanwhile(step.meanwhile, sandbox, going);
      result = await going;
      if (proxy && proxy.cutCount !== cuts?.length) return `${proxy.cutCount} connections were cut`;
    } catch (error) {
      if (step.fails === undefined || !(error instanceof AtollError)) throw error;
      return difference(this.#resolve(step.fails), plain(error), "error");
    } finally {
      proxy?.close();
    }
    if (step.fails !== undefined) return `it did not fail, but gave ${JSON.stringify(plain(result)).slice(0, 500)}`;
    if (step.as !== undefined) this.#saved.set(step.as, result);
    return step.gives === undefined ? undefined : difference(this.#resolve(step.gives), plain(result));
  }

  /** Does steps before another has ended, whose end is awaited also where one of them fails. */
  async #meanwhile(steps: Step[], sandbox: Sandbox | undefined, going: Promise<unknown>): Promise<void> {
    const ended = going.then(
      () => {},
      () => {},
    );
    try {
      for (const [index, one] of steps.entries()) {
        const problem = await this.#step(one, sandbox);
        if (problem !== undefined) throw new Error(`meanwhile ${index + 1}, ${one.do}: ${problem}`);
      }
    } catch (error) {
      await ended;
      throw error;
    }
  }

  async #do(step: Step, sandbox: Sandbox | undefined, host: string | undefined): Promise<unknown> {
    const given = fromWire(this.#resolve(step.with ?? {})) as Arguments;
    const on = this.#targets(step, sandbox, host);
    if (step.do === "exec.stream") return stream(on.sandbox, given);
    if (step.do === "files.write_many") return on.sandbox.files.write(given.path, letters(given.bytes));
    if (step.do === "events") return events(on.sandbox, given);
    if (step.do === "approvals.watch") return this.#watchApproval(on, given, step);
    if (step.do === "audit.follow") return follow(on.client, given);
    if (step.do === "files.watch") return this.#watch(on.sandbox, given, step);
    if (step.do === "fetch") return fetched(given.url);
    const verb = VERBS[step.do];
    if (!verb) throw new Error(`there is no verb ${step.do}`);
    const result = await gathered(await verb(on, given));
    if (step.do === "create" || step.do === "get_or_create") this.#made.push(result as Sandbox);
    if (result instanceof Forks) this.#made.push(...result);
    return result;
  }

  /** What a step is done on, by way of the proxy if there is one. */
  #targets(step: Step, scenarios: Sandbox | undefined, host: string | undefined): Targets {
    const saved = step.on === undefined ? undefined : this.#saved.get(step.on);
    const sandbox = (saved instanceof Sandbox ? saved : scenarios) as Sandbox;
    const [exec, snapshot] = [saved as Exec, saved as Snapshot];
    if (host === undefined) return { client: this.#client, sandbox, exec, snapshot };
    const { apiKey, fetch, silenceMs = 50_000 } = this.#options;
    const client = new Atoll({ ...this.#options, host });
    const transport = new Transport(findEndpoint(host, apiKey), silenceMs, fetch);
    const through = saved instanceof Exec ? new Exec(transport, `/v1/sandboxes/${sandbox.id}`, saved.info) : exec;
    return { client, sandbox: new Sandbox(transport, sandbox.info), exec: through, snapshot };
  }

  /** Puts earlier results in the place of their names. */
  #resolve(value: unknown): unknown {
    if (typeof value === "string" && value.startsWith("$")) {
      const [name, ...fields] = value.slice(1).split(".");
      const found = this.#saved.get(name!);
      if (fields.length === 0) return (found as Exec | Sandbox).id;
      return fields.reduce((one: unknown, field) => (one as Record<string, unknown>)[field], plain(found));
    }
    if (Array.isArray(value)) return value.map((one) => this.#resolve(one));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.#resolve(one)]));
  }

  async #watchApproval({ client, sandbox }: Targets, { approval, until }: Arguments, step: Step): Promise<unknown> {
    const seen: Approval[] = [];
    for await (const one of client.approvals.watch()) {
      if (one.id !== approval) continue;
      const problem = seen.length === 0 && step.while ? await this.#once(step.while, sandbox) : undefined;
      if (problem !== undefined) throw new Error(problem);
      seen.push(one);
      if (one.status === until) break;
    }
    return seen;
  }

  async #watch(sandbox: Sandbox, { path, until, ...options }: Arguments, step: Step): Promise<unknown> {
    const seen: unknown[] = [];
    for await (const event of sandbox.files.watch(path, options)) {
      if (event.kind === "ready") {
        const problem = await this.#once(step.while!, sandbox);
        if (problem !== undefined) throw new Error(problem);
      }
      seen.push(event);
      if ("path" in event && event.path === until) break;
    }
    return seen;
  }
}

async function stream(sandbox: Sandbox, given: Arguments): Promise<unknown> {
  const exec = await sandbox.execs.start(...commandOf(given));
  const kinds: string[] = [];
  const printed = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
  const texts = { stdout: "", stderr: "" };
  for await (const event of exec.events()) {
    if (kinds.at(-1) !== event.kind) kinds.push(event.kind);
    if (event.kind !== "output") continue;
    printed[event.stream].push(event.bytes);
    texts[event.stream] += event.text;
  }
  const [stdout, stderr] = [concat(printed.stdout), concat(printed.stderr)];
  const whole = new TextDecoder().decode(stdout);
  if (texts.stdout !== whole) throw new Error("the text is not that of the bytes");
  return { kinds, stdout, stderr, exitCode: exec.info.ended?.exitCode, signal: exec.info.ended?.signal };
}

async function* letters(count: number): AsyncGenerator<Uint8Array> {
  for (let left = count; left > 0; left -= 65536) yield Buffer.alloc(Math.min(left, 65536), "a");
}

async function events(sandbox: Sandbox, { until, ...options }: Arguments): Promise<Event[]> {
  const seen: Event[] = [];
  for await (const event of sandbox.events(options)) {
    if ("count" in event) throw new Error(`${event.count} events were missed`);
    seen.push(event);
    if (event.what.kind === until) break;
  }
  return seen;
}

async function follow(client: Atoll, { until, ...options }: Arguments): Promise<AuditRecord[]> {
  const seen: AuditRecord[] = [];
  for await (const record of client.audit.follow(options)) {
    seen.push(record);
    if (record.what.kind === until) break;
  }
  return seen;
}

async function fetched(url: string): Promise<unknown> {
  const response = await fetch(url);
  return { status: response.status, body: await response.text() };
}

/** Pieces as one; other things as a list. */
async function gathered(result: unknown): Promise<unknown> {
  if (typeof result !== "object" || result === null || !(Symbol.asyncIterator in result) || result instanceof Exec)
    return result;
  const all: unknown[] = [];
  for await (const one of result as AsyncIterable<unknown>) all.push(one);
  return all.length > 0 && all.every((one) => one instanceof Uint8Array) ? concat(all) : all;
}
