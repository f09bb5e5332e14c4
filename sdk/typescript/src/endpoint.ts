// Where the server is.

/** Where a server listens, and the key for it. */
export interface Endpoint {
  /** The path of a unix socket; absent for TCP. */
  socketPath?: string;
  /** Scheme, host and port. */
  origin: URL;
  apiKey?: string | undefined;
}

export type Environment = Record<string, string | undefined>;

/**
 * The endpoint that was asked for: by argument, else by `ATOLL_HOST`, else the socket where
 * `atoll serve` of the same user listens. The key is `apiKey`, else `ATOLL_API_KEY`. A browser
 * has neither variables nor sockets, but a server that its page came from.
 */
export function findEndpoint(
  host: string | undefined,
  apiKey: string | undefined,
  environment: Environment = globalThis.process?.env ?? {},
): Endpoint {
  const page = (globalThis as { location?: { origin: string } }).location?.origin;
  const asked = host ?? (environment.ATOLL_HOST || undefined) ?? page ?? defaultSocket(environment);
  return { ...parseHost(asked), apiKey: apiKey ?? (environment.ATOLL_API_KEY || undefined) };
}

/** Reads `unix:PATH`, `unix://PATH`, an absolute path, `http://HOST:PORT`, `https://…` or `HOST:PORT`. */
export function parseHost(host: string): Endpoint {
  const socketPath = host.startsWith("/") ? host : /^unix:(?:\/\/)?(\/.*)$/.exec(host)?.[1];
  if (socketPath !== undefined) return { socketPath, origin: new URL("http://localhost") };
  const written = host.includes("://") ? host : `http://${host}`;
  const origin = URL.canParse(written) ? new URL(written) : undefined;
  const isPlain = origin !== undefined && (origin.pathname === "/" || origin.pathname === "") && !origin.search;
  if (!isPlain || !["http:", "https:"].includes(origin.protocol)) {
    throw new TypeError(`${JSON.stringify(host)} is no address: write unix:///PATH, http://HOST:PORT or https://HOST`);
  }
  return { origin };
}

function defaultSocket(environment: Environment): string {
  if (globalThis.process?.geteuid?.() === 0) return "/run/atoll/atoll.sock";
  if (environment.XDG_RUNTIME_DIR) return `${environment.XDG_RUNTIME_DIR}/atoll/atoll.sock`;
  const state = environment.XDG_STATE_HOME || `${environment.HOME || ""}/.local/state`;
  return `${state}/atoll/server/atoll.sock`;
}
