// The example, with a server of a few lines in place of Vite: `sdk/demo` has that, and a browser.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Atoll } from "../src/index.ts";
import { Server } from "./serving.ts";

const EXAMPLE = fileURLToPath(new URL("../examples/goose.js", import.meta.url));
const DEV = `
const { createServer } = require("node:http");
const { readFileSync } = require("node:fs");
createServer((_, answer) => answer.end(readFileSync("greeting.js"))).listen(5173, "127.0.0.1");
`;

test("the example serves a page and changes it", async () => {
  const server = (await Server.start("user"))!;
  try {
    await using client = new Atoll(server.host);
    const sandbox = await client.getOrCreate("goose");
    const files = {
      "package.json": '{"scripts": {"dev": "node dev.cjs"}}',
      "dev.cjs": DEV,
      "greeting.js": 'export default "Hello";\n',
    };
    for (const [name, text] of Object.entries(files)) {
      await sandbox.files.write(`/home/user/origin/${name}`, text, { makeParents: true });
    }
    const commit = "git init -q && git add . && git -c user.name=A -c user.email=a@example.com commit -qm first";
    await sandbox.exec(commit, { directory: "/home/user/origin", check: true });

    const env = { PATH: process.env.PATH, ATOLL_HOST: server.host };
    const example = spawn(process.execPath, [EXAMPLE], { env, stdio: ["pipe", "pipe", "inherit"] });
    const ended = once(example, "exit");
    const [line] = await Promise.race([once(example.stdout, "data"), ended]);
    assert.match(String(line), /^http:\/\/5173-.*\n$/);
    const page = async () => (await fetch((await sandbox.expose(5173)).pathUrl)).text();
    assert.equal(await page(), 'export default "Hello";\n');
    example.stdin.end("\n");
    assert.deepEqual(await ended, [0, null]);
    assert.equal(await page(), 'export default "Honk";\n');
  } finally {
    await server.close();
  }
});
