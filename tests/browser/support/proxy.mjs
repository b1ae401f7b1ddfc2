// A line between the page and the server that can be cut.
import { connect, createServer } from 'node:net';

export class Proxy {
  #pairs = new Set();
  #closed = false;
  #server;

  /** Forwards to `base`. */
  static async to(base) {
    const proxy = new Proxy();
    const { hostname, port } = new URL(base);
    proxy.#server = createServer((from) => proxy.#join(from, Number(port), hostname));
    await new Promise((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    proxy.base = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  #join(from, port, hostname) {
    if (this.#closed) {
      from.destroy();
      return;
    }
    const to = connect(port, hostname);
    const pair = [from, to];
    this.#pairs.add(pair);
    const end = () => {
      this.#pairs.delete(pair);
      for (const socket of pair) socket.destroy();
    };
    for (const socket of pair) socket.on('error', end).on('close', end);
    from.pipe(to);
    to.pipe(from);
  }

  /** Cuts all connections, and refuses new ones. */
  cut() {
    this.#closed = true;
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  /** Lets them through again. */
  mend() {
    this.#closed = false;
  }

  close() {
    this.cut();
    this.#server.close();
  }
}
