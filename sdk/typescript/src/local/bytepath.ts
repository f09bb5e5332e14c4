// Paths of this machine as bytes: a name need not be UTF-8.

const SLASH = 0x2f;

/** A name below a directory. */
export function below(directory: Buffer, name: Uint8Array): Buffer {
  return Buffer.concat([directory, Buffer.of(SLASH), name]);
}

/** The names of a path, without empty ones and `.`. */
export function split(path: Uint8Array): Buffer[] {
  const names: Buffer[] = [];
  let begin = 0;
  for (let at = 0; at <= path.length; at++) {
    if (at < path.length && path[at] !== SLASH) continue;
    const name = Buffer.from(path.subarray(begin, at));
    if (name.length > 0 && !isDot(name)) names.push(name);
    begin = at + 1;
  }
  return names;
}

/** Whether a name is `..`. */
export function isUp(name: Uint8Array): boolean {
  return name.length === 2 && name[0] === 0x2e && name[1] === 0x2e;
}

/** Whether a path begins at the root. */
export function isAbsolute(path: Uint8Array): boolean {
  return path[0] === SLASH;
}

function isDot(name: Uint8Array): boolean {
  return name.length === 1 && name[0] === 0x2e;
}
