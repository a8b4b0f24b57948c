// A relay: pairs connections in arrival order and forwards each message to the partner only.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";

const module = process.argv[2];

if (process.argv.includes("--versions")) {
  let folder = dirname(module);
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  const { name, version } = JSON.parse(readFileSync(join(folder, "package.json")));
  console.log(`${name} ${version}`);
  process.exit(0);
}

const { ROLE, HOST, PORT } = process.env;
if (ROLE !== "relay") {
  console.error(`this server plays no role \`${ROLE}\``);
  process.exit(2);
}

const uWS = createRequire(import.meta.url)(module);
let waiting = null;

uWS
  .App()
  .ws("/*", {
    compression: uWS.DISABLED,
    maxPayloadLength: 16 * 1024 * 1024,
    maxBackpressure: 256 * 1024 * 1024,
    idleTimeout: 0,
    sendPingsAutomatically: false,
    open(socket) {
      socket.partner = waiting;
      if (waiting) {
        waiting.partner = socket;
        waiting = null;
      } else {
        waiting = socket;
      }
    },
    message(socket, message, isBinary) {
      // What comes before there is a partner goes nowhere.
      socket.partner?.send(message, isBinary, false);
    },
    close(socket) {
      if (waiting === socket) waiting = null;
      const { partner } = socket;
      if (!partner) return;
      // A socket that is closed may not be touched: part the two before the other is ended, which calls this again.
      socket.partner = partner.partner = null;
      partner.end(1000);
    },
  })
  .listen(HOST, Number(PORT), uWS.LIBUS_LISTEN_EXCLUSIVE_PORT, (listening) => {
    if (!listening) {
      console.error(`cannot listen on ${HOST}:${PORT}`);
      process.exit(1);
    }
  });

process.on("SIGTERM", () => process.exit(0));
