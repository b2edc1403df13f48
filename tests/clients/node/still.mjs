// Loaded before a server (`node --import ./still.mjs …`) whose messages are to be compared over two runs: its clock stands
// still, its dice always show the same, nothing happens by the clock alone; and over HTTP (PORT=0) the first line of its
// output is its URL.
import { Server } from 'node:net';

const NOW = Date.UTC(2026, 0, 1);
const TrueDate = Date;
globalThis.Date = class extends TrueDate {
  constructor(...parts) {
    if (parts.length === 0) super(NOW);
    else super(...parts);
  }
  static now() {
    return NOW;
  }
};
Math.random = () => 0.5;
// Whoever starts a process puts its variables into an order of his own.
process.env = Object.fromEntries(Object.entries(process.env).sort());
globalThis.setInterval = () => setTimeout(() => {}, 0);

if (process.env.PORT !== undefined) {
  console.log = console.error;
  const listen = Server.prototype.listen;
  Server.prototype.listen = function (...args) {
    this.once('listening', () => process.stdout.write(`http://127.0.0.1:${this.address().port}/mcp\n`));
    return listen.apply(this, args);
  };
}
