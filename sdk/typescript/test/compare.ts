// Results in the one form of `scenarios.json`, and what it says they must be like.

import { createHash } from "node:crypto";
import { inspect, isDeepStrictEqual } from "node:util";
import { AtollError, Exec, ExecResult, Forks, Sandbox, Snapshot } from "../src/index.ts";
import { toWire } from "../src/wire.ts";

/** The form that results are compared in. */
export function plain(value: unknown): unknown {
  if (value instanceof ExecResult) {
    const { exitCode, signal, cause, timedOut, stdout, stderr, stdoutBytes, stderrBytes, denials } = value;
    const { stdoutDroppedBytes, stderrDroppedBytes } = value;
    return toWire({
      exitCode,
      signal,
      cause,
      timedOut,
      stdout,
      stderr,
      stdoutBytes,
      stderrBytes,
      stdoutDroppedBytes,
      stderrDroppedBytes,
      denials,
    });
  }
  if (value instanceof AtollError) {
    const { code, message, tookEffect, retry, nextStep, details } = value;
    const kind = value.name.replace(/Error$/, "");
    return toWire({ code, message, tookEffect, retry, nextStep, details, class: kind });
  }
  if (value instanceof Forks) {
    const { ok, snapshotId, sandboxes, errors } = value;
    return { ok, snapshot_id: snapshotId, sandboxes: sandboxes.map(plain), errors: errors.map(plain) };
  }
  if (value instanceof Sandbox || value instanceof Exec || value instanceof Snapshot) return toWire(value.info);
  return Array.isArray(value) ? value.map(plain) : toWire(value);
}

/** The bytes of a text or of hex. */
export function octets(value: unknown): Buffer {
  const hex = (value as { hex?: string }).hex;
  return hex === undefined ? Buffer.from(String(value)) : Buffer.from(hex, "hex");
}

/** Says where `found` is not like `expected`, if it is not. */
export function difference(expected: unknown, found: unknown, at = "result"): string | undefined {
  const says = () =>
    `${at} is ${inspect(found, { depth: 4 }).slice(0, 500)}, not ${JSON.stringify(expected).slice(0, 500)}`;
  if (isRecord(expected)) {
    const [rule, wanted] = Object.entries(expected)[0] ?? ["", undefined];
    if (rule.startsWith("$")) return judge(rule, wanted, found) ? undefined : says();
    if (!isRecord(found)) return says();
    return firstOf(Object.entries(expected), ([key, one]) => difference(one, found[key], `${at}.${key}`));
  }
  if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) return says();
    return firstOf([...expected.entries()], ([index, one]) => difference(one, found[index], `${at}[${index}]`));
  }
  return isDeepStrictEqual(expected, found) ? undefined : says();
}

function judge(rule: string, wanted: unknown, found: unknown): boolean {
  const items = Array.isArray(found) ? (found as unknown[]) : undefined;
  switch (rule) {
    case "$matches":
      return typeof found === "string" && new RegExp(wanted as string).test(found);
    case "$has":
      return items !== undefined && (wanted as unknown[]).every((one) => items.some((item) => !difference(one, item)));
    case "$none":
      return items !== undefined && items.every((item) => difference(wanted, item) !== undefined);
    case "$at_least":
      return typeof found === "number" && found >= (wanted as number);
    case "$at_most":
      return typeof found === "number" && found <= (wanted as number);
    case "$count":
      return (items ?? octets(found)).length === wanted;
    case "$sha256":
      return createHash("sha256").update(octets(found)).digest("hex") === wanted;
    case "$absent":
      return found === undefined || found === null;
    default:
      throw new Error(`there is no rule ${rule}`);
  }
}

function firstOf<T>(all: readonly T[], look: (one: T) => string | undefined): string | undefined {
  for (const one of all) {
    const found = look(one);
    if (found !== undefined) return found;
  }
  return undefined;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
