// What comes in pieces, and bytes that are mostly text.

import assert from "node:assert/strict";
import { test } from "node:test";
import { findEndpoint, parseHost } from "../src/endpoint.ts";
import { decodeOctets, encodeOctets, percentEncode } from "../src/octets.ts";
import { parseEvents, type ServerEvent } from "../src/sse.ts";
import { fromWire, toWire } from "../src/wire.ts";

const STREAM = Buffer.from(
  'id: 1-0\nevent: output\ndata: {"ä":\ndata: 1}\n\n: \n\ndata: plain\r\n\r\nid: 2-0\ndata: x\n\nevent: cut\ndata: y\n',
);

test("events are the same however they are cut", async () => {
  for (let size = 1; size < STREAM.length; size++) {
    const pieces = (async function* () {
      for (let at = 0; at < STREAM.length; at += size) yield STREAM.subarray(at, at + size);
    })();
    const events: ServerEvent[] = [];
    for await (const event of parseEvents(pieces)) events.push(event);
    assert.deepEqual(events, [
      { event: "output", data: '{"ä":\n1}', id: "1-0" },
      { event: "message", data: "plain", id: "1-0" },
      { event: "message", data: "x", id: "2-0" },
    ]);
  }
});

test("any bytes are a string and the same bytes again", () => {
  const samples = ["", "grüße", "00ff0a", "c3", "c328", "e28298", "f09f909a", "eda080", "f8888080", "61c3a4ff62"];
  for (const bytes of samples.flatMap((one) => [Buffer.from(one), Buffer.from(one, "hex")])) {
    assert.deepEqual(Buffer.from(encodeOctets(decodeOctets(bytes))), bytes);
    const sent = toWire(bytes);
    assert.equal(decodeOctets(bytes), fromWire(sent));
  }
  assert.equal(percentEncode(Buffer.from("2fff", "hex")), "%2F%FF");
  assert.throws(() => encodeOctets("\ud800"), TypeError);
});

test("names are in snake_case outside and in camelCase here, but not the caller's own words", () => {
  const here = { labels: { aB_c: "x" }, idleStopMs: 1, none: undefined, list: [{ isCut: true }] };
  const there = { labels: { aB_c: "x" }, idle_stop_ms: 1, list: [{ is_cut: true }] };
  assert.deepEqual(toWire(here), there);
  assert.deepEqual(fromWire({ ...there, nothing: null }), {
    labels: { aB_c: "x" },
    idleStopMs: 1,
    list: [{ isCut: true }],
  });
});

test("a server is found by what is said, then by variables, then where it usually is", () => {
  const variables = { ATOLL_HOST: "http://there:1", ATOLL_API_KEY: "e2b_1", XDG_RUNTIME_DIR: "/run/user/1" };
  assert.equal(findEndpoint("unix:///x", undefined, variables).socketPath, "/x");
  assert.equal(findEndpoint(undefined, undefined, variables).origin.href, "http://there:1/");
  assert.equal(findEndpoint(undefined, undefined, variables).apiKey, "e2b_1");
  const usual = findEndpoint(undefined, undefined, { ...variables, ATOLL_HOST: "" }).socketPath;
  assert.equal(usual, process.geteuid?.() === 0 ? "/run/atoll/atoll.sock" : "/run/user/1/atoll/atoll.sock");
  for (const wrong of ["ftp://x", "http://x/path", "http://x?y", ""])
    assert.throws(() => parseHost(wrong), TypeError, wrong);
});
