// Speaks to one server with one key, as any agent does.

/** A request may wait for a command's end, and ending a sandbox takes its time. */
const REQUEST_DEADLINE_MS = 100_000;
const WAIT_SECONDS = 30;

export class Api {
  constructor(base, key) {
    this.base = base;
    this.key = key;
  }

  /** The answer, whatever its status. */
  async ask(method, path, body) {
    const headers = { 'x-api-key': this.key };
    if (body !== undefined) headers['content-type'] = 'application/json';
    const response = await fetch(this.base + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_DEADLINE_MS),
    });
    const text = await response.text();
    let json = null;
    try {
      json = JSON.parse(text);
    } catch {
      // Not all answers are JSON.
    }
    return { status: response.status, json, text };
  }

  async done(method, path, body) {
    const answer = await this.ask(method, path, body);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json;
  }

  /** A new key's secret. */
  async makeKey(role) {
    return (await this.done('POST', '/v1/keys', { role, name: `${role} of the browser tests` })).api_key;
  }

  async sessions() {
    return (await this.done('GET', '/v1/sessions')).sessions;
  }

  /** A ready session's id. Small: many of them fit. */
  async makeSession(name, more = {}) {
    const session = await this.done('POST', '/v1/sessions', { name, profile: 'open', memory: '512m', ...more });
    return session.session_id;
  }

  async deleteSession(session) {
    const answer = await this.ask('DELETE', `/v1/sessions/${session}`);
    // One that ended by itself meanwhile is gone as well.
    if (answer.status >= 300 && answer.status !== 404) throw new Error(`DELETE ${session}: ${answer.status} ${answer.text}`);
  }

  /** Starts a command. */
  async run(session, command, more = {}) {
    return this.done('POST', `/v1/sessions/${session}/commands`, { command, ...more });
  }

  async command({ session_id: session, command_id: id }) {
    return this.done('GET', `/v1/sessions/${session}/commands/${id}`);
  }

  /** The command at its end. */
  async end({ session_id: session, command_id: id }, deadline = 60_000) {
    const late = Date.now() + deadline;
    for (;;) {
      const view = await this.done('GET', `/v1/sessions/${session}/commands/${id}?wait=${WAIT_SECONDS}`);
      if (!['starting', 'running'].includes(view.state)) return view;
      if (Date.now() > late) throw new Error(`not ended within ${deadline / 1000} s: ${view.command}`);
    }
  }

  async kill({ session_id: session, command_id: id }, grace = 1) {
    return this.done('POST', `/v1/sessions/${session}/commands/${id}/kill`, { grace_seconds: grace });
  }

  /** Runs a command to its end and returns what it wrote. */
  async outputOf(session, command) {
    const view = await this.run(session, command);
    await this.end(view);
    return (await this.ask('GET', `/v1/sessions/${session}/commands/${view.command_id}/log`)).text;
  }
}
