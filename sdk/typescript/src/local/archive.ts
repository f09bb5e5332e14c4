// Reads tar archives: what is in them, not yet where it goes.

import { BLOCK, padding } from "./pack.ts";

/** What an archive has under one name. */
export interface Member {
  /** As it is in the archive: it can say anything. */
  name: Buffer;
  kind: "file" | "directory" | "symlink" | "hardlink" | "other";
  mode: number;
  /** In seconds since 1970. */
  modified: number;
  size: number;
  /** Where a link leads. */
  target: Buffer;
}

/** The longest header that is taken: a path has 4096 bytes at most. */
const HEADER_BYTES_MAX = 1024 * 1024;
const KINDS: Record<string, Member["kind"]> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  "1": "hardlink",
  "2": "symlink",
  "5": "directory",
};

/** Reads members one after the other. The content of each is read before the next one is asked for. */
export class Archive {
  readonly #source: AsyncIterator<Uint8Array>;
  #piece: Uint8Array = new Uint8Array();
  #left = 0;
  #filling = 0;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Ends reading. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }

  /** The next member; nothing at the end of the archive. */
  async next(): Promise<Member | undefined> {
    await this.#skip();
    let said = new Map<string, Buffer>();
    for (;;) {
      const block = await this.#exactly(BLOCK);
      if (block.every((byte) => byte === 0)) return undefined;
      check(block);
      const size = numberOf(field(block, 124, 12, "raw"));
      const type = String.fromCharCode(block[156]!);
      if (type === "x" || type === "g" || type === "L" || type === "K") {
        if (size > HEADER_BYTES_MAX) throw new Error("the archive has a header that is longer than is taken");
        const body = await this.#exactly(size);
        await this.#exactly(padding(size));
        if (type === "x") said = new Map([...said, ...records(body)]);
        else if (type === "L") said.set("path", untilNul(body));
        else if (type === "K") said.set("linkpath", untilNul(body));
        continue;
      }
      return this.#member(block, type, size, said);
    }
  }

  /** The content of the member that was given last. */
  async *content(): AsyncGenerator<Uint8Array> {
    while (this.#left > 0) {
      const piece = await this.#some(this.#left);
      this.#left -= piece.length;
      yield piece;
    }
  }

  #member(block: Buffer, type: string, size: number, said: Map<string, Buffer>): Member {
    const isSparse = [...said.keys()].some((key) => key.startsWith("GNU.sparse."));
    const prefix = block.toString("latin1", 257, 263) === "ustar\0" ? field(block, 345, 155) : Buffer.alloc(0);
    const plain = field(block, 0, 100);
    const whole = prefix.length > 0 ? Buffer.concat([prefix, Buffer.from("/"), plain]) : plain;
    const length = said.has("size") ? decimal(said.get("size")!) : size;
    const kind = isSparse ? "other" : (KINDS[type] ?? "other");
    // Links and directories have none, whatever they say.
    this.#left = kind === "file" || kind === "other" ? length : 0;
    this.#filling = padding(this.#left);
    return {
      name: said.get("path") ?? whole,
      kind: kind === "file" && whole.at(-1) === 0x2f ? "directory" : kind,
      mode: numberOf(field(block, 100, 8, "raw")),
      modified: said.has("mtime") ? decimal(said.get("mtime")!) : numberOf(field(block, 136, 12, "raw")),
      size: this.#left,
      target: said.get("linkpath") ?? field(block, 157, 100),
    };
  }

  async #skip(): Promise<void> {
    for await (const _ of this.content());
    await this.#exactly(this.#filling);
    this.#filling = 0;
  }

  async #exactly(count: number): Promise<Buffer> {
    const pieces: Uint8Array[] = [];
    for (let left = count; left > 0;) {
      const piece = await this.#some(left);
      left -= piece.length;
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  }

  async #some(most: number): Promise<Uint8Array> {
    while (this.#piece.length === 0) {
      const next = await this.#source.next();
      if (next.done) throw new Error("the archive ends before its end");
      this.#piece = next.value;
    }
    const some = this.#piece.subarray(0, most);
    this.#piece = this.#piece.subarray(some.length);
    return some;
  }
}

function check(block: Buffer): void {
  const sum = block.reduce((all, byte, at) => all + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  if (numberOf(field(block, 148, 8, "raw")) !== sum) throw new Error("that is no tar archive, or a damaged one");
}

function field(block: Buffer, at: number, length: number, as: "text" | "raw" = "text"): Buffer {
  const bytes = block.subarray(at, at + length);
  return as === "raw" ? bytes : untilNul(bytes);
}

function untilNul(bytes: Buffer): Buffer {
  const end = bytes.indexOf(0);
  return Buffer.from(end < 0 ? bytes : bytes.subarray(0, end));
}

/** A number in octal digits, or as GNU has large ones: binary behind a set bit. */
function numberOf(bytes: Buffer): number {
  if ((bytes[0]! & 0x80) === 0) {
    const digits = /^[ \0]*([0-7]*)[ \0]*$/.exec(bytes.toString("latin1"))?.[1];
    if (digits === undefined) throw new Error("the archive has a number that is none");
    return Number.parseInt(digits || "0", 8);
  }
  const value = bytes.reduce((sum, byte, at) => sum * 256 + (at === 0 ? byte & 0x7f : byte), 0);
  if (!Number.isSafeInteger(value)) throw new Error("the archive has a number that is too large");
  return value;
}

function decimal(bytes: Buffer): number {
  const text = bytes.toString("latin1");
  const value = Number(text);
  if (!/^-?[0-9]+(\.[0-9]*)?$/.test(text) || !Number.isFinite(value))
    throw new Error("the archive has a number that is none");
  return value;
}

/** The records of a pax header, each `LENGTH KEY=VALUE\n`. */
function records(body: Buffer): Map<string, Buffer> {
  const found = new Map<string, Buffer>();
  for (let at = 0; at < body.length;) {
    const space = body.indexOf(0x20, at);
    const length = space < 0 ? NaN : decimal(body.subarray(at, space));
    const equals = body.indexOf(0x3d, space);
    const end = at + length;
    const isWhole =
      Number.isInteger(length) && equals > space && equals < end && end <= body.length && body[end - 1] === 0x0a;
    if (!isWhole) throw new Error("the archive has a header that is damaged");
    found.set(body.toString("utf8", space + 1, equals), Buffer.from(body.subarray(equals + 1, end - 1)));
    at = end;
  }
  return found;
}
