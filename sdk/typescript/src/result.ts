// How a command ended, and what it printed.

import { concat, fromBase64, utf8 } from "./bytes.ts";
import type { Denial, ExecInfo, Schemas } from "./types.ts";

const lossy = new TextDecoder("utf-8", { ignoreBOM: true });

/** The bytes of what JSON has as text or base64. */
export function outputBytes(output: Schemas["Output"]): Uint8Array {
  return "text" in output ? utf8(output.text) : fromBase64(output.base64);
}

/** What one stream has printed. */
export interface Printed {
  /** All of it, or its head and its tail with a line between that says how much is missing. */
  bytes: Uint8Array;
  /** How many bytes are not here. */
  droppedBytes: number;
}

/** What an answer has of a stream. */
export function printed(kept: Schemas["Kept"]): Printed {
  const head = outputBytes(kept.head);
  if (kept.droppedBytes === 0) return { bytes: head, droppedBytes: 0 };
  const line = utf8(`\n[${kept.droppedBytes} bytes are not shown]\n`);
  const tail = kept.tail ? outputBytes(kept.tail) : new Uint8Array();
  return { bytes: concat([head, line, tail]), droppedBytes: kept.droppedBytes };
}

/** A command that has ended. */
export class ExecResult {
  /** What is known of the command. */
  readonly exec: ExecInfo;
  /** What it printed to standard output, or what its terminal showed. */
  readonly stdoutBytes: Uint8Array;
  /** What it printed to standard error. */
  readonly stderrBytes: Uint8Array;
  /** How many bytes of its output are not here. */
  readonly stdoutDroppedBytes: number;
  /** How many bytes of its standard error are not here. */
  readonly stderrDroppedBytes: number;
  /** What its sandbox was refused while it ran. */
  readonly denials: Denial[];

  constructor(exec: ExecInfo, stdout: Printed, stderr: Printed, denials: Denial[] = []) {
    this.exec = exec;
    this.stdoutBytes = stdout.bytes;
    this.stderrBytes = stderr.bytes;
    this.stdoutDroppedBytes = stdout.droppedBytes;
    this.stderrDroppedBytes = stderr.droppedBytes;
    this.denials = denials;
  }

  /** The status that it exited with; absent if a signal ended it. */
  get exitCode(): number | undefined {
    return this.exec.ended?.exitCode;
  }

  /** The number of the signal that ended it; absent if it exited. */
  get signal(): number | undefined {
    return this.exec.ended?.signal;
  }

  /** Why it was ended, if it was. */
  get cause(): Schemas["EndCause"] | undefined {
    return this.exec.ended?.cause;
  }

  /** Whether its time was over. */
  get timedOut(): boolean {
    return this.cause === "timed_out";
  }

  /** Whether it exited with 0. */
  get ok(): boolean {
    return this.exitCode === 0;
  }

  /** Standard output as text; what is not UTF-8 is replaced. */
  get stdout(): string {
    return lossy.decode(this.stdoutBytes);
  }

  /** Standard error as text; what is not UTF-8 is replaced. */
  get stderr(): string {
    return lossy.decode(this.stderrBytes);
  }

  /** How it ended, for people. */
  ending(): string {
    if (this.timedOut) return "took too long and was killed";
    if (this.cause !== undefined) return `was ended: ${this.cause}`;
    return this.signal === undefined ? `exited with ${this.exitCode}` : `was ended by signal ${this.signal}`;
  }
}
