#include "socket.hpp"

#include <poll.h>

namespace pgbaton::pg {

short wait_socket(PGconn* c, short events, Milliseconds timeout) {
  pollfd one{PQsocket(c), events, 0};
  // A socket that libpq has closed is reported as ready, so that the caller goes on to libpq's own error.
  if (one.fd < 0) return POLLHUP;
  return ::poll(&one, 1, static_cast<int>(timeout.count())) > 0 ? one.revents : static_cast<short>(0);
}

}  // namespace pgbaton::pg
