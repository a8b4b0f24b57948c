// A relay: pairs connections in arrival order and forwards each message to the partner only.
import { createRequire } from "node:module";
import process from "node:process";
import { WebSocketServer } from "ws";

if (process.argv.includes("--versions")) {
  // Bun brings its own implementation under this name, whatever is installed.
  const own = process.versions.bun;
  const { version } = createRequire(import.meta.url)("ws/package.json");
  console.log(`ws ${own ? `of bun ${own}` : version}`);
  process.exit(0);
}

const { ROLE, HOST, PORT } = process.env;
if (ROLE !== "relay") {
  console.error(`this server plays no role \`${ROLE}\``);
  process.exit(2);
}

let waiting = null;

const server = new WebSocketServer({ host: HOST, port: Number(PORT), perMessageDeflate: false });

server.on("connection", (socket) => {
  socket.partner = waiting;
  if (waiting) {
    waiting.partner = socket;
    waiting = null;
  } else {
    waiting = socket;
  }
  socket.on("message", (data, isBinary) => {
    // What comes before there is a partner goes nowhere.
    socket.partner?.send(data, { binary: isBinary });
  });
  socket.on("close", () => {
    if (waiting === socket) waiting = null;
    socket.partner?.close();
    socket.partner = null;
  });
  // A bad frame ends its own connection, which the library closes by itself.
  socket.on("error", () => {});
});

server.on("error", (error) => {
  console.error(error.message);
  process.exit(1);
});

process.on("SIGTERM", () => process.exit(0));
