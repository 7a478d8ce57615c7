"""One connection that speaks just enough of PostgreSQL's protocol to ask simple queries without a process per query.

For probes that poll: psql would cost more than what they measure. Trust authentication over TCP only.
"""

import socket
import struct


class Session:
    def __init__(self, port, database, application="bench probe"):
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        fields = {"user": "postgres", "database": database, "application_name": application}
        body = struct.pack("!i", 196608)  # protocol 3.0
        for name, value in fields.items():
            body += name.encode() + b"\0" + value.encode() + b"\0"
        body += b"\0"
        self._socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self._until_ready()
        self.pid = int(self.query("select pg_backend_pid()")[0][0])

    def query(self, sql):
        """Rows as lists of text values; None for NULL. The server's error is raised."""
        body = sql.encode() + b"\0"
        self._socket.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)
        return self._until_ready()

    def close(self):
        self._socket.close()

    def _take(self, size):
        while len(self._buffer) < size:
            got = self._socket.recv(65536)
            if not got:
                raise RuntimeError("the server closed the connection")
            self._buffer += got
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def _until_ready(self):
        rows, error = [], None
        while True:
            kind, size = struct.unpack("!ci", self._take(5))
            body = self._take(size - 4)
            if kind == b"D":
                rows.append(_row(body))
            elif kind == b"E":
                error = _error_text(body)
            elif kind == b"R" and struct.unpack("!i", body[:4])[0] != 0:
                error = "the server asks for a password"
                break
            elif kind == b"Z":
                break
        if error:
            raise RuntimeError(error)
        return rows


def _row(body):
    (count,) = struct.unpack("!h", body[:2])
    at, values = 2, []
    for _ in range(count):
        (size,) = struct.unpack("!i", body[at : at + 4])
        at += 4
        values.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return values


def _error_text(body):
    fields = [part.decode() for part in body.split(b"\0") if part]
    return next((f[1:] for f in fields if f.startswith("M")), "unknown error")
