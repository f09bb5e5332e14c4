// What happens to sandboxes.

import { Perseverance, type Transport } from "./transport.ts";
import type { Event, Missed } from "./types.ts";
import { fromWire } from "./wire.ts";

/** From where on events are followed. */
export interface EventOptions {
  /** Begin behind the event of this number; 0 gives all that are kept, absent those from now on. */
  after?: number;
  signal?: AbortSignal;
}

/** Events as they come. A connection that breaks is made again behind the last one. */
export async function* follow(
  transport: Transport,
  sandbox: string | undefined,
  options: EventOptions,
): AsyncGenerator<Event | Missed> {
  let after = options.after;
  const perseverance = new Perseverance(transport, options.signal);
  for (;;) {
    try {
      const request = { path: "/v1/events", query: { after, sandbox }, signal: options.signal };
      for await (const { event, data } of transport.events(request)) {
        const said = fromWire(JSON.parse(data));
        if (event === "message") {
          after = (said as Event).seq;
          perseverance.progressed();
          yield said as Event;
        } else if (event === "missed") {
          yield said as Missed;
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
