// A plain MCP client whose server's command has `settled mcp` in front of it.

import { connect, overStdio } from "./client.mjs";
import { script } from "./keyed_script.mjs";
import { STATE, main, replace } from "./settled_kit.mjs";

const { PROFILE_MCP_COMMAND, PROFILE_SETTLED, PROFILE_TOOL_URL } = process.env;
const tool = new URL(PROFILE_TOOL_URL).origin;

const CONFIG = `
ledger = "file:${STATE}/ledger"
scope = "profile"

[tools.step]
kind = "observable"
settling = "5s" # the tool keeps its callers waiting for less
window = "30d" # for so long a run may be resumed

[tools.step.observe]
http = "${tool}/applied/{run}/{step}"
within = "25s"
`;

function server() {
  const config = `${STATE}/settled.toml`;
  replace(config, CONFIG);
  return [PROFILE_SETTLED, "mcp", "--config", config, "--", ...JSON.parse(PROFILE_MCP_COMMAND)];
}

let connected;
const take = async (step) => (await (connected ??= connect(overStdio(server()))))(step);

await main(script(take));
