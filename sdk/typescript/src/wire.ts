// Values as JSON has them and as the SDK gives them: names in snake_case and in camelCase, bytes
// that are mostly text as octets.ts says.

import { fromHex, toHex } from "./bytes.ts";
import { decodeOctets, encodeOctets } from "./octets.ts";

/** Fields whose keys are the caller's own words. */
const MAPS = new Set(["env", "labels"]);

const camel = (name: string): string => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** What goes into a request. */
export function toWire(value: unknown): unknown {
  if (typeof value === "string") return value.isWellFormed() ? value : octets(encodeOctets(value));
  if (value instanceof Uint8Array) return octets(value);
  if (Array.isArray(value)) return value.map(toWire);
  if (value === null || typeof value !== "object") return value;
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return Object.fromEntries(fields.map(([name, field]) => [snake(name), MAPS.has(name) ? field : toWire(field)]));
}

/** What came in an answer. */
export function fromWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(fromWire);
  if (value === null || typeof value !== "object") return value;
  const fields = Object.entries(value).filter(([, field]) => field !== null);
  const first = fields[0];
  if (fields.length === 1 && first?.[0] === "hex" && typeof first[1] === "string") {
    return decodeOctets(fromHex(first[1]));
  }
  return Object.fromEntries(fields.map(([name, field]) => [camel(name), MAPS.has(name) ? field : fromWire(field)]));
}

function octets(bytes: Uint8Array): unknown {
  const text = decodeOctets(bytes);
  return text.isWellFormed() ? text : { hex: toHex(bytes) };
}
