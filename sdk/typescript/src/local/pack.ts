// A directory of this machine as a tar archive (POSIX.1-2001, pax), with flat memory.

import type { Stats } from "node:fs";
import { lstat, open, readdir, readlink } from "node:fs/promises";
import { below } from "./bytepath.ts";

export const BLOCK = 512;
const PIECE = 256 * 1024;
/** Where the field of a name ends, and where an octal length does. */
const NAME_BYTES_MAX = 100;
const SIZE_MAX = 8 ** 11;

interface Entry {
  name: Buffer;
  type: "0" | "2" | "5" | "x";
  mode: number;
  modified: number;
  size: number;
  target?: Buffer;
}

/** The archive of what is in `directory`. Owners are left out; sockets, pipes and devices too. */
export async function* pack(directory: string): AsyncGenerator<Uint8Array> {
  yield* packBelow(Buffer.from(directory), Buffer.alloc(0));
  yield Buffer.alloc(2 * BLOCK);
}

async function* packBelow(directory: Buffer, prefix: Buffer): AsyncGenerator<Uint8Array> {
  const names = await readdir(directory, { encoding: "buffer" });
  for (const one of names.sort(Buffer.compare)) {
    const path = below(directory, one);
    const name = Buffer.concat([prefix, one]);
    const stats = await lstat(path);
    const facts = { mode: stats.mode & 0o777, modified: Math.max(0, Math.floor(stats.mtimeMs / 1000)), size: 0 };
    if (stats.isDirectory()) {
      const inner = Buffer.concat([name, Buffer.from("/")]);
      yield* header({ ...facts, name: inner, type: "5" });
      yield* packBelow(path, inner);
    } else if (stats.isSymbolicLink()) {
      yield* header({ ...facts, name, type: "2", target: await readlink(path, { encoding: "buffer" }) });
    } else if (stats.isFile()) {
      yield* packFile(path, { ...facts, name, type: "0" }, stats);
    }
  }
}

async function* packFile(path: Buffer, entry: Entry, seen: Stats): AsyncGenerator<Uint8Array> {
  const file = await open(path, "r");
  try {
    // The length that is promised is that of the file that was opened.
    const { size, ino } = await file.stat();
    if (ino !== seen.ino) throw new Error(`${path} became another file while it was read`);
    yield* header({ ...entry, size });
    for (let left = size; left > 0;) {
      const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(Math.min(left, PIECE)));
      if (bytesRead === 0) throw new Error(`${path} became shorter while it was read`);
      left -= bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
    yield Buffer.alloc(padding(size));
  } finally {
    await file.close();
  }
}

/** How many bytes fill the last block. */
export function padding(size: number): number {
  return (BLOCK - (size % BLOCK)) % BLOCK;
}

function* header(entry: Entry): Generator<Uint8Array> {
  const records: Buffer[] = [];
  if (entry.name.length > NAME_BYTES_MAX) records.push(record("path", entry.name));
  if (entry.target && entry.target.length > NAME_BYTES_MAX) records.push(record("linkpath", entry.target));
  if (entry.size >= SIZE_MAX) records.push(record("size", Buffer.from(String(entry.size))));
  if (records.length > 0) {
    const body = Buffer.concat(records);
    const name = Buffer.from("pax");
    yield block({ name, type: "x", mode: 0o644, modified: 0, size: body.length });
    yield body;
    yield Buffer.alloc(padding(body.length));
  }
  yield block(entry);
}

/** A record of a pax header, which begins with its own length. */
function record(key: string, value: Buffer): Buffer {
  const rest = Buffer.concat([Buffer.from(` ${key}=`), value, Buffer.from("\n")]);
  let length = rest.length;
  while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
  return Buffer.concat([Buffer.from(String(length)), rest]);
}

function block(entry: Entry): Buffer {
  const bytes = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, digits: number) =>
    bytes.write(value.toString(8).padStart(digits, "0"), at, "latin1");
  bytes.set(entry.name.subarray(0, NAME_BYTES_MAX), 0);
  octal(entry.mode, 100, 7);
  octal(0, 108, 7);
  octal(0, 116, 7);
  octal(entry.size < SIZE_MAX ? entry.size : 0, 124, 11);
  octal(entry.modified, 136, 11);
  bytes.write(" ".repeat(8), 148, "latin1");
  bytes.write(entry.type, 156, "latin1");
  if (entry.target) bytes.set(entry.target.subarray(0, NAME_BYTES_MAX), 157);
  bytes.write("ustar\u000000", 257, "latin1");
  octal(
    bytes.reduce((sum, byte) => sum + byte, 0),
    148,
    6,
  );
  bytes[154] = 0;
  return bytes;
}
