// Files of a sandbox.

import { collect } from "./bytes.ts";
import type { Content } from "./channel/channel.ts";
import { ConflictError, NotFoundError, apiError } from "./errors.ts";
import { Perseverance, type Request, SILENCE_MS, type Transport } from "./transport.ts";
import type { Edited, Existing, FileStat, Found, Listing, Path, Replacement, Schemas, Unpacked } from "./types.ts";
import { fromWire } from "./wire.ts";

/** Which part of a file is read. */
export interface ReadOptions {
  /** First byte; 0 if absent. */
  offset?: number;
  /** At most so many bytes; all if absent. */
  length?: number;
  signal?: AbortSignal;
}

/** How a file is written. */
export interface WriteOptions {
  /** What if there is one already: `replace` it, `append` to it, or `keep` it and fail. */
  existing?: Existing;
  /** The mode of a new file in octal; `0644` if absent. */
  mode?: string;
  /** Make directories that are missing. */
  makeParents?: boolean;
}

/** Something that happened below a directory that is watched. */
export type WatchEvent =
  /** What happens from now on is told; again after the connection broke, and then some may have been missed. */
  | { kind: "ready" }
  | ({ kind: "changed" } & Schemas["Changed"])
  /** So much happened that some of it was not told: look anew. */
  | { kind: "overflowed" }
  /** A directory below cannot be watched. */
  | ({ kind: "unwatched" } & Schemas["Unwatched"]);

/** A search, a removal or an archive of many files takes its time. */
const LONG_MS = 5 * SILENCE_MS;

export class Files {
  readonly #transport: Transport;
  readonly #path: string;

  /** @internal */
  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport;
    this.#path = `${sandboxPath}/files`;
  }

  /** The bytes of a file. */
  async read(path: Path, options: ReadOptions = {}): Promise<Uint8Array> {
    return collect(this.stream(path, options));
  }

  /** The text of a file; what is not UTF-8 is replaced. */
  async readText(path: Path, options: ReadOptions = {}): Promise<string> {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(await this.read(path, options));
  }

  /**
   * The bytes of a file, as they come. A connection that breaks is made again where it broke, if the
   * file is as it was; else `ConflictError` is thrown.
   */
  async *stream(path: Path, options: ReadOptions = {}): AsyncGenerator<Uint8Array> {
    let offset = options.offset ?? 0;
    let length = options.length;
    let version: string | undefined;
    const perseverance = new Perseverance(this.#transport, options.signal);
    for (;;) {
      try {
        const answer = await this.#transport.open(this.#get("content", { path, offset, length }, options.signal));
        const found = versionOf(answer.header("atoll-stat"));
        if (version !== undefined && found !== version) {
          answer.discard();
          throw changed();
        }
        version = found;
        for await (const piece of answer.body) {
          offset += piece.length;
          if (length !== undefined) length -= piece.length;
          perseverance.progressed();
          yield piece;
        }
        return;
      } catch (error) {
        // Without knowing that it is the same file there is no going on.
        if (version === undefined && offset > (options.offset ?? 0)) throw error;
        await perseverance.orThrow(error);
      }
    }
  }

  /** Writes a file. A stream is sent as it comes. */
  async write(path: Path, data: Content, options: WriteOptions = {}): Promise<FileStat> {
    const isWhole = typeof data === "string" || data instanceof Uint8Array;
    return this.#transport.json({
      method: "PUT",
      path: `${this.#path}/content`,
      query: { path, existing: options.existing, mode: options.mode, make_parents: options.makeParents },
      content: data,
      headers: { "content-type": "application/octet-stream" },
      isRepeatable: isWhole && (options.existing ?? "replace") === "replace",
    });
  }

  /** Names below a directory, sorted; `depth` 1 if absent. */
  async list(path: Path, options: { depth?: number; limit?: number } = {}): Promise<Listing> {
    return this.#transport.json(this.#get("list", { path, ...options }));
  }

  /** What is known of a name. A last link is not followed unless that is asked for. */
  async stat(path: Path, options: { follow?: boolean } = {}): Promise<FileStat> {
    return this.#transport.json(this.#get("stat", { path, ...options }));
  }

  /** Whether there is such a name. */
  async exists(path: Path): Promise<boolean> {
    try {
      await this.stat(path);
      return true;
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error;
      // A sandbox that is gone is something else than a file that is not there.
      await this.stat("/");
      return false;
    }
  }

  /** Makes a directory. One that is there is not touched. */
  async makeDirectory(path: Path, options: { mode?: string; makeParents?: boolean } = {}): Promise<FileStat> {
    return this.#post("make_directory", { path, ...options }, true);
  }

  /** Removes a name; with `recursive` a directory and everything in it. */
  async remove(path: Path, options: { recursive?: boolean } = {}): Promise<void> {
    await this.#post("remove", { path, ...options });
  }

  /** Moves a name to another; with `replace` one that is there is replaced. */
  async move(from: Path, to: Path, options: { replace?: boolean } = {}): Promise<FileStat> {
    return this.#post("move", { from, to, ...options });
  }

  /** Sets a mode, written in octal as `0755`. */
  async setMode(path: Path, mode: string): Promise<FileStat> {
    return this.#post("set_mode", { path, mode }, true);
  }

  /** Replaces text in a file, all of it or nothing. */
  async edit(path: Path, replacements: Replacement | readonly Replacement[]): Promise<Edited> {
    const all = Array.isArray(replacements) ? replacements : [replacements];
    return this.#post("edit", { path, replacements: all });
  }

  /** Finds names below a directory. */
  async glob(
    path: Path,
    pattern: string,
    options: { respectsIgnore?: boolean; limit?: number } = {},
  ): Promise<Listing> {
    return this.#post("glob", { path, pattern, ...options }, true);
  }

  /** Finds lines in a file, or in those below a directory. */
  async grep(
    path: Path,
    pattern: string,
    options: {
      isLiteral?: boolean;
      ignoresCase?: boolean;
      include?: string[];
      respectsIgnore?: boolean;
      limit?: number;
    } = {},
  ): Promise<Found> {
    return this.#post("grep", { path, pattern, ...options }, true);
  }

  /** Copies a local file, or what is in a local directory, to `path`; links are copied as links. */
  async upload(local: string, path: Path, options: { makeParents?: boolean } = {}): Promise<FileStat | Unpacked> {
    const { open } = await import("./local/upload.ts");
    const source = await open(local);
    const makeParents = options.makeParents ?? true;
    if (source.kind === "file") return this.write(path, source.content, { mode: source.mode, makeParents });
    return this.#transport.json({
      method: "PUT",
      path: `${this.#path}/archive`,
      query: { path, make_parents: makeParents },
      content: source.archive,
      headers: { "content-type": "application/x-tar" },
      silenceMs: LONG_MS,
    });
  }

  /**
   * Copies a file, or what is in a directory, to `local`.
   *
   * What comes from a sandbox is not trusted: links that lead out of `local`, and what else would
   * reach elsewhere, are left out; their names are the result.
   */
  async download(path: Path, local: string): Promise<string[]> {
    const found = await this.stat(path, { follow: true });
    if (found.kind !== "directory") {
      const { save } = await import("./local/download.ts");
      await save(this.stream(path), local, Number.parseInt(found.mode, 8) & 0o777);
      return [];
    }
    const { unpack } = await import("./local/unpack.ts");
    const request = { ...this.#get("archive", { path, format: "tar" }), silenceMs: LONG_MS };
    const { body } = await this.#transport.open(request);
    return unpack(body, local);
  }

  /** What changes below a directory, from now on. It ends when the caller stops asking. */
  async *watch(path: Path, options: { recursive?: boolean; signal?: AbortSignal } = {}): AsyncGenerator<WatchEvent> {
    const perseverance = new Perseverance(this.#transport, options.signal);
    for (;;) {
      try {
        const request = {
          path: `${this.#path}/watch`,
          query: { path, recursive: options.recursive },
          signal: options.signal,
        };
        for await (const { event, data } of this.#transport.events(request)) {
          const said = (data === "" ? {} : fromWire(JSON.parse(data))) as never;
          if (event === "changed") perseverance.progressed();
          if (event === "lost") throw apiError(said);
          else if (event === "end") break;
          else if (event === "ready") yield { kind: "ready" };
          else if (event === "overflowed") yield { kind: "overflowed" };
          else if (event === "changed") yield { kind: "changed", ...(said as Schemas["Changed"]) };
          else if (event === "unwatched") yield { kind: "unwatched", ...(said as Schemas["Unwatched"]) };
        }
        throw this.#transport.broke("the stream of changes ended");
      } catch (error) {
        await perseverance.orThrow(error);
      }
    }
  }

  #get(verb: string, query: Request["query"], signal?: AbortSignal): Request {
    return { method: "GET", path: `${this.#path}/${verb}`, query: query ?? {}, signal };
  }

  async #post<T>(verb: string, json: object, isRepeatable = false): Promise<T> {
    return this.#transport.json<T>({
      method: "POST",
      path: `${this.#path}/${verb}`,
      json,
      isRepeatable,
      silenceMs: LONG_MS,
    });
  }
}

function changed(): ConflictError {
  return new ConflictError({
    code: "conflict",
    message: "the file changed while it was read",
    tookEffect: "no",
    retry: { kind: "safe" },
    nextStep: "read it again from its beginning",
  });
}

/** What tells one content of a file from another. */
function versionOf(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const { bytes, modified_us: modified } = JSON.parse(header);
  return `${bytes} ${modified}`;
}
