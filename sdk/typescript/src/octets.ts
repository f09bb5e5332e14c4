// Bytes that are mostly text: paths and arguments.
//
// A name on Linux is any bytes but NUL and slash. In this SDK it is a string all the same: a byte
// that is not UTF-8 becomes the lone surrogate U+DC00 + byte, as Python does it, and becomes that
// byte again when the string is sent. So every name can be listed and used.

import { concat, utf8 } from "./bytes.ts";

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const ESCAPED = 0xdc00;

/** The string for these bytes. */
export function decodeOctets(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return decodePieces(bytes);
  }
}

function decodePieces(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length;) {
    const length = characterLength(bytes, at);
    text += length > 0 ? strict.decode(bytes.subarray(at, at + length)) : String.fromCharCode(ESCAPED + bytes[at]!);
    at += Math.max(length, 1);
  }
  return text;
}

/** How many bytes the character there has; 0 if there is none. */
function characterLength(bytes: Uint8Array, at: number): number {
  const first = bytes[at]!;
  const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  try {
    strict.decode(bytes.subarray(at, at + length));
    return at + length <= bytes.length ? length : 0;
  } catch {
    return 0;
  }
}

/** The bytes of this string. */
export function encodeOctets(text: string | Uint8Array): Uint8Array {
  if (typeof text !== "string") return text;
  if (text.isWellFormed()) return utf8(text);
  const pieces: Uint8Array[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!;
    if (code >= ESCAPED + 0x80 && code <= ESCAPED + 0xff) pieces.push(Uint8Array.of(code - ESCAPED));
    else if (character.isWellFormed()) pieces.push(utf8(character));
    else throw new TypeError("the text has half of a surrogate pair, which stands for no byte");
  }
  return concat(pieces);
}

/** As a part of a URL's query or path: percent-encoded byte by byte. */
export function percentEncode(text: string | Uint8Array): string {
  if (typeof text === "string" && text.isWellFormed()) return encodeURIComponent(text);
  return Array.from(encodeOctets(text), (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9._~-]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}
