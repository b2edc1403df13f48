// A plain script that calls its tool through `settled gateway`.

import { gateway } from "./gateway.mjs";
import { script } from "./keyed_script.mjs";
import { call, main } from "./settled_kit.mjs";

let url;
const take = async (step) => call(step, await (url ??= gateway()));

await main(script(take));
