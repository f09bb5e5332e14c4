// Server-sent events, as the HTML standard has them.

/** One event. */
export interface ServerEvent {
  /** Its kind; `message` where nothing was said. */
  event: string;
  data: string;
  /** The last id that was said, of this event or of one before it. */
  id: string;
}

/** The kind of an id that came alone: where a stream begins. */
export const PLACE = "\0place";

/** Longest event that is taken, in characters. */
const EVENT_LENGTH_MAX = 64 * 1024 * 1024;

/** Makes events of text that comes in pieces. */
export class EventParser {
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id = "";
  #hasId = false;
  #length = 0;
  #isFirst = true;

  /** Takes a piece; gives the events that it completes. */
  *push(piece: string): Generator<ServerEvent> {
    if (this.#isFirst && piece.length > 0) {
      piece = piece.replace(/^\uFEFF/, "");
      this.#isFirst = false;
    }
    // A carriage return at the end may be half of a line's end.
    const lines = (this.#rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop()!;
    if (this.#rest.length + this.#length > EVENT_LENGTH_MAX) throw new RangeError("an event is longer than is taken");
    for (const line of lines) {
      const event = this.#line(line);
      if (event) yield event;
    }
  }

  #line(line: string): ServerEvent | undefined {
    if (line === "") return this.#dispatch();
    this.#length += line.length;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) [this.#id, this.#hasId] = [value, true];
    return undefined;
  }

  #dispatch(): ServerEvent | undefined {
    const data = this.#data;
    const isPlace = data.length === 0 && this.#hasId;
    const event = isPlace ? PLACE : this.#event || "message";
    this.#data = [];
    this.#hasId = false;
    this.#event = "";
    this.#length = 0;
    return data.length > 0 || isPlace ? { event, data: data.join("\n"), id: this.#id } : undefined;
  }
}

/** The events of a body. One that is not complete at its end is left out. */
export async function* parseEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  for await (const bytes of body) yield* parser.push(decoder.decode(bytes, { stream: true }));
}
