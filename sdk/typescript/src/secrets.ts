// The secrets of a server. Nothing here keeps a value, and the server never gives one back.

import { toBase64 } from "./bytes.ts";
import type { Transport } from "./transport.ts";
import type { Schemas, Secret } from "./types.ts";

/** The secrets of a server, which it keeps encrypted. */
export class Secrets {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Sets a secret, whether there is one of that name or not. */
  async set(name: string, value: string | Uint8Array): Promise<Secret> {
    const json = typeof value === "string" ? { value } : { valueBase64: toBase64(value) };
    return this.#transport.json({ method: "PUT", path: path(name), json, isRepeatable: true });
  }

  /** All secrets by name, without their values. */
  async list(): Promise<Secret[]> {
    return (await this.#transport.json<Schemas["Secrets"]>({ method: "GET", path: "/v1/secrets" })).secrets;
  }

  /** Deletes the secret of this name: it is put into nothing any more. */
  async delete(name: string): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: path(name) });
  }
}

function path(name: string): string {
  return `/v1/secrets/${encodeURIComponent(name)}`;
}
