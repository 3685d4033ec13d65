// The loop of an adapter in JavaScript: requests of the engine protocol (docs/protocol.md) become calls of an engine.

import { createInterface } from "node:readline";

/** A query that the engine does not support; the message is the reason. */
export class Refused extends Error {}

/** Serve requests until the harness closes the program. The methods of the engine take requests and return replies. */
export async function serve(engine) {
  console.log = console.error; // what a library prints must not be taken for a reply
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    if (request.do === "close") break;
    process.stdout.write(`${JSON.stringify(await replyTo(engine, request))}\n`);
  }
  process.exit(0);
}

async function replyTo(engine, request) {
  try {
    return await engine[request.do](request);
  } catch (error) {
    if (error instanceof Refused) return { refused: oneLine(error.message) };
    console.error(error);
    return { error: oneLine(error) };
  }
}

/** Return the beginning of a message as one line. */
function oneLine(message, limit = 200) {
  return String(message).split(/\s+/).join(" ").slice(0, limit);
}
