// Log sequence numbers: byte positions in a server's WAL, PostgreSQL's pg_lsn.
//
// An Lsn variable always says in its name which position it is (commit_lsn, end_lsn, received_lsn, applied_lsn,
// durable_lsn, boundary). Only commit LSNs are compared with boundaries and guards (README, guarantee G1).
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pgbaton {

struct Lsn {
  std::uint64_t value = 0;

  constexpr auto operator<=>(const Lsn&) const = default;
  // 0/0 is PostgreSQL's InvalidXLogRecPtr: "no position".
  constexpr explicit operator bool() const { return value != 0; }
};

// "16/B374D848", upper-case hex as pg_lsn_out prints it.
std::string to_string(Lsn lsn);
// The same format back; nullopt for anything else, also for trailing characters.
std::optional<Lsn> parse_lsn(std::string_view text);
// As parse_lsn, but throws Error(usage) naming `what`.
Lsn require_lsn(std::string_view text, std::string_view what);

}  // namespace pgbaton
