// What is uploaded: a file of this machine, or a directory as an archive.

import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { toWire } from "../wire.ts";
import { pack } from "./pack.ts";

type Source =
  | { kind: "file"; mode: string; content: AsyncIterable<Uint8Array> }
  | { kind: "directory"; archive: AsyncIterable<Uint8Array> };

export async function open(local: string): Promise<Source> {
  const found = await stat(local);
  if (found.isDirectory()) return { kind: "directory", archive: pack(local) };
  const mode = (found.mode & 0o777).toString(8).padStart(4, "0");
  return { kind: "file", mode, content: createReadStream(local) };
}

/** A request as JSON on one line, and the archive of a directory behind it. */
export async function* packWith(request: object, local: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`${JSON.stringify(toWire(request))}\n`);
  yield* pack(local);
}
