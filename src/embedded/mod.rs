//! Built-in servers: the control relay, the busy-polled relay, and faulty ones that prove the checks.
