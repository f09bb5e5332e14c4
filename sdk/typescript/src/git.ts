// Git repositories of a sandbox. Git runs inside.

import type { Request, Transport } from "./transport.ts";
import type { GitDiff, GitStatus, Path } from "./types.ts";

/** How long git may take. */
const GIT_MS = 660_000;

/** The repositories of one sandbox. Errors carry what git said. */
export class Git {
  readonly #transport: Transport;
  readonly #path: string;

  /** @internal */
  constructor(transport: Transport, sandboxPath: string) {
    this.#transport = transport;
    this.#path = `${sandboxPath}/git`;
  }

  /** Clones a repository to `path`. */
  async clone(url: string, path: Path, options: { branch?: string; depth?: number } = {}): Promise<GitStatus> {
    return this.#ask({ method: "POST", path: "clone", json: { url, path, ...options } });
  }

  /** Tells the branch and what is changed. */
  async status(path: Path): Promise<GitStatus> {
    return this.#ask({ method: "GET", path: "status", query: { path } });
  }

  /** Tells how the work tree differs, or what is staged, or two revisions. */
  async diff(path: Path, options: { staged?: boolean; from?: string; to?: string } = {}): Promise<GitDiff> {
    return this.#ask({ method: "GET", path: "diff", query: { path, ...options } });
  }

  /** Checks out a branch or revision; with `create` a new branch. */
  async checkout(path: Path, target: string, options: { create?: boolean } = {}): Promise<GitStatus> {
    return this.#ask({ method: "POST", path: "checkout", json: { path, target, ...options } });
  }

  #ask<T>(request: Request): Promise<T> {
    return this.#transport.json({ ...request, path: `${this.#path}/${request.path}`, silenceMs: GIT_MS });
  }
}
