// What the README shows is checked against the types that are shipped, and run.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Server } from "./serving.ts";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("../../", import.meta.url));
const FOLDER = join(PACKAGE, "build/readme");

const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
const snippets = [...readme.matchAll(/```ts\n([^]*?)```/g)].map((found) => found[1]!);
const PRINTED = ["42\n\n", /^line 1\nline 2\nline 3\n2 look/];

let server: Server | undefined;
before(async () => {
  server = await Server.start("user");
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  for (const [index, text] of snippets.entries()) writeFileSync(join(FOLDER, `snippet${index}.ts`), text);
  const options = { extends: "../../tsconfig.json", compilerOptions: { rootDir: ".", outDir: "js", paths: {} }, include: ["*.ts"] };
  writeFileSync(join(FOLDER, "tsconfig.json"), JSON.stringify(options));
  await run(process.execPath, [join(PACKAGE, "node_modules/typescript/bin/tsc"), "-p", FOLDER]).catch(
    ({ stdout }: { stdout: string }) => assert.fail(stdout),
  );
});
after(() => server?.close());

test("there are as many snippets as outputs", () => assert.equal(snippets.length, PRINTED.length));

for (const [index, expected] of PRINTED.entries()) {
  test(`snippet ${index}`, async () => {
    const env = { PATH: process.env.PATH, ATOLL_HOST: server!.host };
    const { stdout, stderr } = await run(process.execPath, [join(FOLDER, `js/snippet${index}.js`)], { env });
    assert.equal(stderr, "");
    if (typeof expected === "string") assert.equal(stdout, expected);
    else assert.match(stdout, expected);
  });
}
