// What every adapter in JavaScript does alike: what it was told, how it calls the tool, how it ends. Node's own modules only.

import { renameSync, writeFileSync } from "node:fs";

export const OVER = 0; // exit codes: the run is over,
export const WAITS = 75; // waits for an approval,
export const UNKNOWN = 69; // isn't known

const { env } = process;
export const WORKLOAD = env.PROFILE_WORKLOAD;
export const RUN = env.PROFILE_RUN;
export const STATE = env.PROFILE_STATE;
export const TIMEOUT = Number(env.PROFILE_TIMEOUT) * 1000; // in milliseconds
export const ANSWER = env.PROFILE_ANSWER || null; // "approve" or "deny", on resume
export const WITH_INPUT = env.PROFILE_FORM === "input"; // resume with the original input

/** One call of the tool over HTTP. */
export async function call(step, url = env.PROFILE_TOOL_URL) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": `"${RUN}/${step}"` },
    body: JSON.stringify({ run: RUN, step }),
    signal: AbortSignal.timeout(TIMEOUT),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`the tool answered ${answer.status}: ${text}`);
}

/** Writes a file whole: whoever is killed meanwhile, or reads it, has what was there before. */
export function replace(file, text) {
  const own = `${file}.${process.pid}`;
  writeFileSync(own, text, { flush: true });
  renameSync(own, file);
}

/** Does what the command line says, and exits with what it returns, or with 1 and the reason. */
export async function main(commands) {
  try {
    process.exit(await commands[process.argv[2]]());
  } catch (error) {
    const cause = error?.cause?.message ?? error?.cause?.code;
    const [words] = `${error?.name ?? "Error"}: ${error?.message ?? error}`.split("\n");
    console.error(error);
    console.error(cause ? `${words} (${cause})` : words);
    process.exit(1);
  }
}
