import { Atoll } from "@atoll/sdk";

const sandbox = await new Atoll().getOrCreate("goose");
await sandbox.git.clone("/home/user/origin", "/home/user/app");
await sandbox.execs.start("npm run dev", { directory: "/home/user/app", name: "dev server" });
await sandbox.waitForPort(5173);
console.log((await sandbox.expose(5173)).url);
for await (const _ of process.stdin) break;
await sandbox.files.edit("/home/user/app/greeting.js", { old: "Hello", new: "Honk" });
