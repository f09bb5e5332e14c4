// Unpacks an archive of somebody who is not trusted: nothing is written outside of the directory, and
// no link is made that leads out of it.
//
// Files are written below directories that are no links, so they are where their name says. Links are
// made when all else is there. A link's target goes up first, no further than the directory, and then
// only down: as each link that it meets is such a one too, it never gets out.

import { link, lstat, mkdir, open, realpath, rm, symlink, unlink } from "node:fs/promises";
import { decodeOctets } from "../octets.ts";
import { Archive, type Member } from "./archive.ts";
import { below, isAbsolute, isUp, split } from "./bytepath.ts";

/** Unpacks into `directory`; gives the names that were left out. */
export async function unpack(source: AsyncIterable<Uint8Array>, directory: string): Promise<string[]> {
  await mkdir(directory, { recursive: true });
  const unpacking = new Unpacking(await realpath(Buffer.from(directory), { encoding: "buffer" }));
  const archive = new Archive(source);
  try {
    for (let member = await archive.next(); member; member = await archive.next()) {
      if (!(await unpacking.take(member, archive))) unpacking.leaveOut(member);
    }
  } finally {
    await archive.close();
  }
  await unpacking.makeLinks();
  return unpacking.leftOut;
}

class Unpacking {
  readonly leftOut: string[] = [];
  readonly #root: Buffer;
  readonly #links: { member: Member; names: Buffer[]; target: Buffer }[] = [];
  /** Files that this archive brought: only those may be linked to. */
  readonly #written = new Set<string>();

  constructor(root: Buffer) {
    this.#root = root;
  }

  leaveOut(member: Member): void {
    this.leftOut.push(decodeOctets(member.name));
  }

  /** Whether a member could be taken. */
  async take(member: Member, archive: Archive): Promise<boolean> {
    const names = split(member.name);
    if (isAbsolute(member.name) || names.some(isUp) || member.name.includes(0)) return false;
    if (member.kind === "directory") return (await this.#directory(names)) !== undefined;
    const name = names.at(-1);
    if (name === undefined || member.kind === "other") return false;
    if (member.kind === "symlink") {
      if (!leadsInside(names.length - 1, member.target)) return false;
      this.#links.push({ member, names, target: member.target });
      return true;
    }
    const parent = await this.#directory(names.slice(0, -1));
    const path = parent && below(parent, name);
    if (path === undefined) return false;
    if (member.kind === "hardlink") return this.#hardLink(member.target, path);
    if (!(await isFree(path))) return false;
    await write(path, member, archive);
    this.#written.add(keyOf(path));
    return true;
  }

  /** Makes the links, which nothing is written through any more. */
  async makeLinks(): Promise<void> {
    for (const { member, names, target } of this.#links) {
      const parent = await this.#directory(names.slice(0, -1));
      const path = parent && below(parent, names.at(-1)!);
      if (path === undefined || !(await isFree(path))) {
        this.leaveOut(member);
        continue;
      }
      await symlink(target, path);
      // A link that was here before may lead anywhere.
      const end = await realpath(path, { encoding: "buffer" }).catch(() => undefined);
      if (end !== undefined && !this.#isInside(end)) {
        await unlink(path);
        this.leaveOut(member);
      }
    }
  }

  /** A directory below, made if it is missing; nothing where a name on the way is no directory. */
  async #directory(names: readonly Buffer[]): Promise<Buffer | undefined> {
    let path = this.#root;
    for (const name of names) {
      path = below(path, name);
      await mkdir(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "EEXIST") throw error;
      });
      if (!(await lstat(path)).isDirectory()) return undefined;
    }
    return path;
  }

  async #hardLink(target: Buffer, path: Buffer): Promise<boolean> {
    const names = split(target);
    if (names.some(isUp)) return false;
    const existing = names.reduce(below, this.#root);
    if (!this.#written.has(keyOf(existing))) return false;
    if (existing.equals(path)) return true;
    if (!(await isFree(path))) return false;
    await link(existing, path);
    this.#written.add(keyOf(path));
    return true;
  }

  #isInside(path: Buffer): boolean {
    return path.equals(this.#root) || below(path, Buffer.alloc(0)).indexOf(below(this.#root, Buffer.alloc(0))) === 0;
  }
}

/** Whether a link at this depth leads nowhere but below the directory: first up, then down. */
function leadsInside(depth: number, target: Buffer): boolean {
  if (target.length === 0 || target.includes(0) || isAbsolute(target)) return false;
  const names = split(target);
  const down = names.findIndex((name) => !isUp(name));
  const ups = down < 0 ? names.length : down;
  return ups <= depth && !names.slice(ups).some(isUp);
}

/** Takes away what is in the way, which is not followed; whether it could be. */
async function isFree(path: Buffer): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isDirectory()) return false;
  await rm(path, { force: true });
  return true;
}

async function write(path: Buffer, member: Member, archive: Archive): Promise<void> {
  const mode = member.mode & 0o100 ? 0o755 : 0o644;
  const file = await open(path, "wx", (member.mode & 0o777 & mode) | 0o600);
  try {
    for await (const piece of archive.content()) await file.writeFile(piece);
    await file.utimes(member.modified, member.modified);
  } finally {
    await file.close();
  }
}

function keyOf(path: Buffer): string {
  return path.toString("latin1");
}
