// The scenarios that both SDKs have in common, over a unix socket and over TCP by `fetch`.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Atoll, type AtollOptions, type Capabilities } from "../src/index.ts";
import { type As, ROOT, Server, skip } from "./serving.ts";
import { Player, type Scenario } from "./steps.ts";

const { scenarios } = JSON.parse(readFileSync(join(ROOT, "sdk/scenarios.json"), "utf8")) as { scenarios: Scenario[] };

for (const as of ["root", "user"] satisfies As[]) {
  describe(`as ${as}`, () => {
    let server: Server | undefined;
    let flags: Capabilities["flags"];

    before(async () => {
      server = await Server.start(as);
      if (!server) return;
      await using client = new Atoll(server.host);
      ({ flags } = await client.capabilities());
    });
    after(() => server?.close());

    for (const way of ["socket", "fetch"] as const) {
      for (const scenario of scenarios) {
        test(`${way}: ${scenario.name}`, async (t) => {
          if (!server) return skip(t, "sdk-as-root", "run by an ordinary user");
          const lacks = scenario.needs?.find((flag) => !plainFlags(flags)[flag]);
          if (lacks !== undefined) return skip(t, `sdk-${lacks}`, `the tier cannot ${lacks} here`);
          const tcp = { host: "127.0.0.1", port: server.port };
          const options: AtollOptions =
            way === "socket"
              ? { host: server.host }
              : { host: `http://${tcp.host}:${tcp.port}`, apiKey: server.key, fetch };
          await new Player(options, way === "socket" ? { path: server.socket } : tcp).play(
            scenario,
            server.internet.port,
          );
        });
      }
    }
  });
}

function plainFlags(flags: Capabilities["flags"]): Record<string, boolean> {
  return Object.fromEntries(
    Object.entries(flags).map(([name, is]) => [name.replace(/[A-Z]/g, (one) => `_${one.toLowerCase()}`), is]),
  );
}
