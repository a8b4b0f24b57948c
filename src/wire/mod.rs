//! The minimal WebSocket client that the native generator needs: frames, handshake, busy-polled sockets.
