// An MCP client, spoken by hand: as much of it as it takes to use a sandbox.

const VERSION = '2025-06-18';
const REQUEST_DEADLINE_MS = 60_000;

export class McpClient {
  #url;
  #key;
  #session = null;
  #next = 0;

  constructor(url, key) {
    this.#url = url;
    this.#key = key;
  }

  /** A client of this name that has begun; the sandbox is made by its first call. */
  static async begin(api, { name, version, workspace }) {
    const client = new McpClient(`${api.base}/mcp?profile=open&workspace=${workspace}`, api.key);
    const response = await client.#post('initialize', { protocolVersion: VERSION, capabilities: {}, clientInfo: { name, version } }, { id: 'begin' });
    client.#session = response.headers.get('mcp-session-id');
    await response.text();
    await (await client.#post('notifications/initialized', {})).text();
    return client;
  }

  async #send(method, body) {
    const headers = { 'x-api-key': this.#key, 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    if (this.#session) Object.assign(headers, { 'mcp-session-id': this.#session, 'mcp-protocol-version': VERSION });
    const response = await fetch(this.#url, { method, headers, body, signal: AbortSignal.timeout(REQUEST_DEADLINE_MS) });
    if (!response.ok) throw new Error(`${method} /mcp: ${response.status} ${await response.text()}`);
    return response;
  }

  async #post(method, params, more = {}) {
    return this.#send('POST', JSON.stringify({ jsonrpc: '2.0', method, params, ...more }));
  }

  /** What the model reads. */
  async call(tool, input) {
    this.#next += 1;
    const id = this.#next;
    const text = await (await this.#post('tools/call', { name: tool, arguments: input }, { id })).text();
    const messages = text.split('\n').filter((line) => /^data:\s*\{/.test(line)).map((line) => JSON.parse(line.slice('data:'.length)));
    const answer = messages.find((message) => message.id === id);
    if (!answer?.result) throw new Error(`no answer to ${tool}: ${text}`);
    return answer.result.content[0].text;
  }

  /** It says that it leaves, as good clients do. */
  async leave() {
    await (await this.#send('DELETE')).text();
  }
}
