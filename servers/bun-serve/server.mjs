// A relay: pairs connections in arrival order and forwards each message to the partner only.
const { ROLE, HOST, PORT } = process.env;
if (ROLE !== "relay") {
  console.error(`this server plays no role \`${ROLE}\``);
  process.exit(2);
}

let waiting = null;

Bun.serve({
  hostname: HOST,
  port: Number(PORT),
  fetch(request, server) {
    if (server.upgrade(request, { data: { partner: null } })) return;
    return new Response("a WebSocket handshake is expected here\n", { status: 400 });
  },
  websocket: {
    perMessageDeflate: false,
    idleTimeout: 0,
    open(socket) {
      if (waiting) {
        socket.data.partner = waiting;
        waiting.data.partner = socket;
        waiting = null;
      } else {
        waiting = socket;
      }
    },
    message(socket, message) {
      // Text comes as a string and binary as bytes, and leaves as what it came. What comes before there is a
      // partner goes nowhere.
      socket.data.partner?.send(message);
    },
    close(socket) {
      if (waiting === socket) waiting = null;
      socket.data.partner?.close();
      socket.data.partner = null;
    },
  },
});

process.on("SIGTERM", () => process.exit(0));
