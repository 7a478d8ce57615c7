// A password goes to another host under TLS only. Where one is at hand (connection string, PGPASSWORD, ~/.pgpass) and
// sslmode would let a connection be made without TLS, sslmode becomes require; an explicit sslmode=disable is refused.
// Unix sockets, localhost, 127.0.0.0/8 and ::1 are no other host. Holds for every connection of this process and of
// pg_dump and psql.
#pragma once
#include <pgbaton/base/error.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::pg {

// Hosts, as connection strings spell them, to which a password may go in the clear (allow_plain_password in the file).
// Called once, before any connection and any other thread.
void allow_plain_password(std::vector<std::string> hosts);
// For a process of ours that has not read the file.
const std::vector<std::string>& plain_password_hosts();

// The sslmode that a connection gets over its own: "require" or "", for none. Throws Error(usage) for a password under
// sslmode=disable. Connects to nothing.
std::string forced_sslmode(const std::string& conninfo, Side side);

// Of hosts and hostaddrs as a connection string lists them ("a,b"): those that are other machines and not allowed.
std::vector<std::string> other_hosts(std::string_view hosts, std::string_view addresses);

}  // namespace pgbaton::pg
