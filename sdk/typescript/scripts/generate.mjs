// Writes src/generated/openapi.ts from openapi/v1.json; with --check it only compares.
//
// Names become camelCase here, so that what an editor shows is what the SDK gives; src/wire.ts
// does the same to values. Bytes that are mostly text are strings: src/octets.ts says how.

import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const source = new URL("../../../openapi/v1.json", import.meta.url);
const target = new URL("../src/generated/openapi.ts", import.meta.url);
const head = "// Generated from openapi/v1.json by `npm run generate`. Do not edit.\n\n";

const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const isNull = (schema) => schema.type === "null";

function translate(schema) {
  if (Array.isArray(schema)) return schema.map(translate);
  if (schema === null || typeof schema !== "object") return schema;
  const { properties, required, oneOf, type, ...rest } = schema;
  const out = Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [key, key === "enum" ? value : translate(value)]),
  );
  if (properties) {
    const entries = Object.entries(properties).map(([name, value]) => [camel(name), translate(value)]);
    out.properties = Object.fromEntries(entries);
  }
  if (required) out.required = required.map(camel);
  // The server leaves out what there is not; it never says null.
  if (Array.isArray(type)) {
    const types = type.filter((one) => one !== "null");
    out.type = types.length === 1 ? types[0] : types;
  } else if (type) {
    out.type = type;
  }
  if (oneOf) {
    const forms = oneOf.filter((form) => !isNull(form)).map(translate);
    if (forms.length === 1) return { ...forms[0], ...out };
    out.oneOf = forms;
  }
  return out;
}

const api = JSON.parse(await readFile(source, "utf8"));
const schemas = translate(api.components.schemas);
if (schemas.Octets) {
  schemas.Octets = { type: "string", description: "Bytes that are mostly text, as `decodeOctets` gives them." };
}
const ast = await openapiTS(
  { openapi: "3.1.0", info: api.info, paths: {}, components: { schemas } },
  { defaultNonNullable: false },
);
const text = head + astToString(ast);

if (process.argv.includes("--check")) {
  const found = await readFile(target, "utf8").catch(() => "");
  if (found !== text) {
    console.error("src/generated/openapi.ts is not what openapi/v1.json says: run `npm run generate`");
    process.exitCode = 1;
  }
} else {
  await writeFile(target, text);
}
