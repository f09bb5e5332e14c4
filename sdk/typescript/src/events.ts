// What happens to sandboxes.

import { PLACE } from "./sse.ts";
import { Perseverance, type Request, type Transport } from "./transport.ts";
import type { Event, Missed } from "./types.ts";
import { fromWire } from "./wire.ts";

/** From where on events are followed. */
export interface EventOptions {
  /** Begin behind the event of this number; 0 gives all that are kept, absent those from now on. */
  after?: number;
  signal?: AbortSignal;
}

/** Events of sandboxes as they come. */
export function follow(
  transport: Transport,
  sandbox: string | undefined,
  { after, signal }: EventOptions,
): AsyncGenerator<Event | Missed> {
  return followNumbered<Event>(transport, { path: "/v1/events", query: { sandbox }, signal }, after);
}

/** What has numbers, as it comes. A connection that breaks is made again behind the last one. */
export async function* followNumbered<T extends { seq: number }>(
  transport: Transport,
  request: Pick<Request, "path" | "query" | "signal">,
  after: number | undefined,
): AsyncGenerator<T | Missed> {
  const perseverance = new Perseverance(transport, request.signal);
  for (;;) {
    try {
      const asked = { ...request, query: { ...request.query, after } };
      for await (const { event, data, id } of transport.events(asked)) {
        if (event === PLACE) {
          after = Number(id);
        } else if (event === "message") {
          const said = fromWire(JSON.parse(data)) as T;
          after = said.seq;
          perseverance.progressed();
          yield said;
        } else if (event === "missed") {
          yield fromWire(JSON.parse(data)) as Missed;
        } else if (event === "end") {
          break;
        }
      }
      throw transport.broke("the stream of events ended");
    } catch (error) {
      await perseverance.orThrow(error);
    }
  }
}
