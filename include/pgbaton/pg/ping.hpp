// Whether a server is there at all.
#pragma once
#include <pgbaton/pg/endpoint.hpp>

namespace pgbaton::pg {

// True when anything answers in PostgreSQL's protocol: also with an error (no such database or role, a password that is
// missing or wrong, too many connections, starting up). False when nothing does within the connect_timeout of the
// endpoint, or 10 s.
bool answers(const Endpoint& endpoint);

}  // namespace pgbaton::pg
