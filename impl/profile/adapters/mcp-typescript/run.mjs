// A plain MCP client: a script that calls a tool for each step, and writes down how far it is.

import { connect, overHttp, overStdio } from "./client.mjs";
import { script } from "./plain_script.mjs";
import { main } from "./settled_kit.mjs";

const { PROFILE_MCP_COMMAND, PROFILE_MCP_URL, TRANSPORT } = process.env;

const transport = () => (TRANSPORT === "http" ? overHttp(PROFILE_MCP_URL) : overStdio(JSON.parse(PROFILE_MCP_COMMAND)));

let connected;
const take = async (step) => (await (connected ??= connect(transport())))(step);

await main(script(take));
