// `settled gateway` in front of the tool, with its ledger in the state directory.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { STATE, replace } from "./settled_kit.mjs";

const { PROFILE_SETTLED, PROFILE_TOOL_URL } = process.env;
const tool = new URL(PROFILE_TOOL_URL).origin;

const CONFIG = `
upstream = "${tool}"
ledger = "file:${STATE}/ledger"
scope = "profile"

[gateway]
in_flight = "wait"

[[routes]]
path = "/step"
key = "required"
kind = "observable"
settling = "5s" # the tool keeps its callers waiting for less
settle = "25s"
retry = { attempts = 4 } # what has not happened is sent again
retention = "30d" # for so long a run may be resumed

[routes.observe]
http = "${tool}/applied/{body.run}/{body.step}"
`;

/** Starts it; the URL to call instead of the tool's. */
export async function gateway() {
  const config = `${STATE}/settled.toml`;
  replace(config, CONFIG);
  const listen = ["--listen", "127.0.0.1:0"];
  const child = spawn(PROFILE_SETTLED, ["gateway", "--config", config, ...listen], { stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => child.kill("SIGKILL"));
  return await new Promise((listens, fails) => {
    child.once("exit", (code) => fails(new Error(`settled gateway ended with ${code}`)));
    createInterface(child.stderr).on("line", (line) => {
      console.error(line);
      const address = line.match(/^settled: (http:\S+)/);
      if (address) listens(new URL("/step", address[1]));
    });
  });
}
