// One file to this machine.

import { open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Writes a file; it is there when it is whole. */
export async function save(content: AsyncIterable<Uint8Array>, local: string, mode: number): Promise<void> {
  const partial = join(dirname(local), `.${basename(local)}.partial`);
  await rm(partial, { force: true });
  try {
    const file = await open(partial, "wx", (mode & ~0o022) | 0o600);
    try {
      for await (const piece of content) await file.writeFile(piece);
    } finally {
      await file.close();
    }
    await rename(partial, local);
  } finally {
    await rm(partial, { force: true });
  }
}
