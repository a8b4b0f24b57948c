// A relay: pairs connections in arrival order and forwards each message to the partner only.
const [ROLE, HOST, PORT] = ["ROLE", "HOST", "PORT"].map((name) => Deno.env.get(name));
if (ROLE !== "relay") {
  console.error(`this server plays no role \`${ROLE}\``);
  Deno.exit(2);
}

let waiting = null;

function relay(socket) {
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    socket.partner = waiting;
    if (waiting) {
      waiting.partner = socket;
      waiting = null;
    } else {
      waiting = socket;
    }
  };
  // Text comes as a string and binary as a buffer, and leaves as what it came. What comes before there is a partner
  // goes nowhere.
  socket.onmessage = (event) => {
    const { partner } = socket;
    if (partner?.readyState === WebSocket.OPEN) partner.send(event.data);
  };
  socket.onclose = () => {
    if (waiting === socket) waiting = null;
    socket.partner?.close();
    socket.partner = null;
  };
  // A bad frame ends its own connection; `onclose` follows.
  socket.onerror = () => {};
}

Deno.serve({ hostname: HOST, port: Number(PORT), onListen: () => {} }, (request) => {
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") {
    return new Response("a WebSocket handshake is expected here\n", { status: 400 });
  }
  const { socket, response } = Deno.upgradeWebSocket(request, { idleTimeout: 0 });
  relay(socket);
  return response;
});

Deno.addSignalListener("SIGTERM", () => Deno.exit(0));
