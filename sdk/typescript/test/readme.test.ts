// What the README shows is checked against the types that are shipped, and run.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Server } from "./serving.ts";

const run = promisify(execFile);
const PACKAGE = fileURLToPath(new URL("../../", import.meta.url));

const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
const snippets = [...readme.matchAll(/```ts\n([^]*?)```/g)].map((found) => found[1]!);
const PRINTED = [
  "42\n\n",
  /^line 1\nline 2\nline 3\n2 look/,
  /^http:\S+\n(Honk\n7\n\n){3}$/,
  // Not of what is inside, but of the value.
  new RegExp(`^atoll_MODEL_KEY_\\w+\\n\\n/v1/models ${sha256("Bearer sk-the-real-value")}\\n\\nelsewhere.example.com not-allowed `),
  /^exec.ask: git push \* \{ kind: 'exec', argv: \[ 'git', 'push', 'origin', 'main' \] \}\n.*not on a Friday\n$/,
];

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** What the README says about a host of the internet, about the one that there is here. */
function here(snippet: string): string {
  const { port } = server!.internet;
  return snippet
    .replaceAll("api.example.com", `api.example.com:${port}`)
    .replace("allow: [", `allow: ["127.0.0.1/32:${port}", `);
}

let server: Server | undefined;
let folder = "";
before(async () => {
  server = await Server.start("user");
  folder = mkdtempSync(join(tmpdir(), "atoll-readme-"));
  // As whoever has installed it.
  mkdirSync(join(folder, "node_modules/@atoll"), { recursive: true });
  symlinkSync(PACKAGE, join(folder, "node_modules/@atoll/sdk"));
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  for (const [index, text] of snippets.entries()) writeFileSync(join(folder, `snippet${index}.ts`), here(text));
  const typeRoots = [join(PACKAGE, "node_modules/@types")];
  const compilerOptions = { rootDir: ".", outDir: "js", paths: {}, typeRoots };
  writeFileSync(
    join(folder, "tsconfig.json"),
    JSON.stringify({ extends: join(PACKAGE, "tsconfig.json"), compilerOptions, include: ["*.ts"] }),
  );
  await run(process.execPath, [join(PACKAGE, "node_modules/typescript/bin/tsc"), "-p", folder]).catch(
    ({ stdout }: { stdout: string }) => assert.fail(stdout),
  );
});
after(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server?.close();
});

test("there are as many snippets as outputs", () => assert.equal(snippets.length, PRINTED.length));

for (const [index, expected] of PRINTED.entries()) {
  test(`snippet ${index}`, async () => {
    const env = { PATH: process.env.PATH, ATOLL_HOST: server!.host, MODEL_KEY: "sk-the-real-value" };
    const { stdout, stderr } = await run(process.execPath, [join(folder, `js/snippet${index}.js`)], { env });
    assert.equal(stderr, "");
    if (typeof expected === "string") assert.equal(stdout, expected);
    else assert.match(stdout, expected);
  });
}
