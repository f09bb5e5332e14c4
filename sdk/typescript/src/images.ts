// The images of a server.

import { apiError } from "./errors.ts";
import { Perseverance, type Transport } from "./transport.ts";
import type { Image, ImageProgress, Pruned, Schemas } from "./types.ts";
import { fromWire } from "./wire.ts";

/** How an image is pulled. */
export interface PullOptions {
  /** Called with how far it is. */
  onProgress?: (progress: ImageProgress) => void;
  signal?: AbortSignal;
}

/** The images that sandboxes of a server are made of. Each is named by a name, or by its digest or the begin of it. */
export class Images {
  readonly #transport: Transport;

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** All images, by their digests. */
  async list(): Promise<Image[]> {
    return (await this.#transport.json<Schemas["Images"]>({ method: "GET", path: "/v1/images" })).images;
  }

  /** The image of this name or digest. */
  async get(image: string): Promise<Image> {
    return this.#transport.json({ method: "GET", path: path(image) });
  }

  /**
   * Pulls an image, as `python:3.12-slim`, or imports one of the server's machine, as `oci:/PATH`. It returns when the
   * image is there.
   */
  async pull(image: string, options: PullOptions = {}): Promise<Image> {
    const { onProgress, signal } = options;
    const perseverance = new Perseverance(this.#transport, signal);
    for (;;) {
      try {
        const request = { method: "POST", path: "/v1/images", json: { image }, signal } as const;
        for await (const { event, data } of this.#transport.events(request)) {
          const said = () => fromWire(JSON.parse(data)) as never;
          perseverance.progressed();
          if (event === "progress") onProgress?.(said());
          else if (event === "image") return said();
          else if (event === "error") throw apiError((said() as Schemas["ErrorBody"]).error);
          else if (event === "end") break;
        }
        throw this.#transport.broke("the stream of a pull ended");
      } catch (error) {
        await perseverance.orThrow(error);
      }
    }
  }

  /** Removes a name, and the image with its last one; by a digest the image with all its names. */
  async delete(image: string): Promise<void> {
    await this.#transport.bytes({ method: "DELETE", path: path(image) });
  }

  /** Removes images without a name, or with `all` those that no sandbox and no snapshot was made of. */
  async prune(options: { all?: boolean } = {}): Promise<Pruned> {
    return this.#transport.json({ method: "POST", path: "/v1/images/prune", json: options });
  }
}

function path(image: string): string {
  return `/v1/images/${encodeURIComponent(image)}`;
}
