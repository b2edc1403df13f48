// The TypeScript SDK that CLIENT_SDK names, and how to reach a server with it: the same few functions for all of them.
//
// CLIENT_SDK       1.30.0 (the default), 1.32.2 or 2.4.0
// CLIENT_REVISION  the revision of MCP to ask for (unset: the SDK's own)
const { CLIENT_SDK: sdk = '1.30.0', CLIENT_REVISION: revision } = process.env;
const STATELESS = '2026-07-28';

async function modules() {
  if (sdk === '2.4.0') {
    const all = await import('@modelcontextprotocol/client');
    return { ...all, ...(await import('@modelcontextprotocol/client/stdio')) };
  }
  const name = { '1.30.0': '@modelcontextprotocol/sdk', '1.32.2': '@modelcontextprotocol/sdk-current' }[sdk];
  if (!name) throw new Error(`CLIENT_SDK: there is no ${sdk} here`);
  return {
    ...(await import(`${name}/client/index.js`)),
    ...(await import(`${name}/client/stdio.js`)),
    ...(await import(`${name}/client/streamableHttp.js`)),
    ...(await import(`${name}/types.js`)),
  };
}

const its = await modules();
const second = sdk.startsWith('2.');

/** A client that asks for CLIENT_REVISION. */
export function makeClient(capabilities = {}) {
  const options = { capabilities };
  if (revision === STATELESS) {
    if (!second) throw new Error(`SDK ${sdk} does not speak ${revision}`);
    options.versionNegotiation = { mode: { pin: revision } };
  }
  return new its.Client({ name: 'settled-test-client', version: '1.0.0' }, options);
}

/** The transport to a target: `--` and a command, or a URL. */
export function makeTransport([first, command, ...args], options) {
  const transport =
    first === '--'
      ? new its.StdioClientTransport({ command, args, env: process.env })
      : new its.StreamableHTTPClientTransport(new URL(first), options);
  if (revision && revision !== STATELESS) askFor(transport, revision);
  return transport;
}

// The SDKs offer no choice among the older revisions, so the request is changed on its way out.
function askFor(transport, version) {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method !== 'initialize') return send(message, options);
    return send({ ...message, params: { ...message.params, protocolVersion: version } }, options);
  };
}

/** Calls a tool. */
export function callTool(client, params, options) {
  return second ? client.callTool(params, options) : client.callTool(params, undefined, options);
}

/** Answers requests of the server. */
export function handle(client, method, handler) {
  if (second) return client.setRequestHandler(method, handler);
  const schemas = {
    'roots/list': its.ListRootsRequestSchema,
    'sampling/createMessage': its.CreateMessageRequestSchema,
    'elicitation/create': its.ElicitRequestSchema,
  };
  return client.setRequestHandler(schemas[method], handler);
}

export const isTarget = ([first, command]) => (first === '--' ? Boolean(command) : /^https?:\/\//.test(first ?? ''));
