//! What exists: servers, runtimes and clients, how they are installed and which versions they are.
