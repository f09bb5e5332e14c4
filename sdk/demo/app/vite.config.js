import { appendFileSync } from "node:fs";
import { defineConfig } from "vite";

/** Writes down the headers that reach the sandbox, for the test to look at. */
function headersLog(path) {
  const log = (request) => appendFileSync(path, JSON.stringify([request.url, request.headers]) + "\n");
  return {
    name: "headers-log",
    configureServer(server) {
      server.httpServer.on("upgrade", log);
      server.middlewares.use((request, _response, next) => {
        log(request);
        next();
      });
    },
  };
}

export default defineConfig({
  // Whoever wants another port would wait for this one in vain.
  server: { port: 5173, strictPort: true },
  plugins: [headersLog("/tmp/headers.log")],
});
