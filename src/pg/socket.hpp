// One poll() on a connection's socket, the only way in which pg/ waits.
#pragma once
#include <libpq-fe.h>
#include <pgbaton/base/time.hpp>

namespace pgbaton::pg {

// The events that came (POLLIN, POLLOUT, also POLLHUP and POLLERR), 0 after `timeout` or on a signal.
short wait_socket(PGconn* c, short events, Milliseconds timeout);

}  // namespace pgbaton::pg
