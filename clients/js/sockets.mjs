// The two implementations that are measured, behind one function: `open(kind, url, heard)` resolves to
// `{ send, close, extensions }`. `heard.message(data, isText)` gets a Buffer, or a string from implementations that make
// one of a text message; `heard.closed(how)` is told once, whatever ended the connection.
import { Buffer } from "node:buffer";
import { createRequire } from "node:module";
import process from "node:process";

/** Versions of what an implementation consists of, beside the runtime. */
export function versions(kind) {
  if (kind !== "ws") return {};
  // Bun brings its own implementation under this name, whatever is installed.
  const own = process.versions.bun;
  return { ws: own ? `of bun ${own}` : createRequire(import.meta.url)("ws/package.json").version };
}

export async function open(kind, url, heard) {
  return kind === "ws" ? openPackage((await import("ws")).WebSocket, url, heard) : openBuiltin(url, heard);
}

function openPackage(WebSocket, url, heard) {
  return new Promise((resolve, reject) => {
    // Compression is not offered; the library turns Nagle's algorithm off by itself.
    const socket = new WebSocket(url, { perMessageDeflate: false });
    let error = null;
    socket.on("error", (cause) => {
      error = cause;
      reject(cause);
    });
    socket.on("message", (data, isBinary) => heard.message(data, !isBinary));
    socket.on("close", (code, reason) => heard.closed(error ? `broke: ${error.message}` : closing(code, reason.toString())));
    socket.on("open", () =>
      resolve({
        send: (data, isText) => socket.send(data, { binary: !isText }),
        close: () => socket.close(1000),
        extensions: extensions(socket.extensions),
      }),
    );
  });
}

function openBuiltin(url, heard) {
  return new Promise((resolve, reject) => {
    if (typeof globalThis.WebSocket !== "function") {
      reject(new Error("this runtime has no WebSocket of its own"));
      return;
    }
    const socket = new globalThis.WebSocket(url);
    socket.binaryType = "arraybuffer";
    let opened = false;
    socket.onmessage = ({ data }) =>
      typeof data === "string" ? heard.message(data, true) : heard.message(Buffer.from(data), false);
    socket.onerror = (event) => {
      if (!opened) reject(new Error(event.message || "the handshake failed"));
    };
    socket.onclose = ({ code, reason }) => heard.closed(closing(code, reason));
    socket.onopen = () => {
      opened = true;
      resolve({
        send: (data) => socket.send(data),
        close: () => socket.close(1000),
        extensions: extensions(socket.extensions),
      });
    };
  });
}

function closing(code, reason) {
  return `closed the connection with code ${code}${reason ? ` (\`${reason}\`)` : ""}`;
}

/** `ws` keeps an object, browsers' interface a header. */
function extensions(said) {
  const names = typeof said === "string" ? said : Object.keys(said ?? {}).join(", ");
  return names ? [names] : [];
}
