// The walsender reader: START_REPLICATION on the slot, lazily read in big gulps (PERF.md A3: a sleep of 1–2 ms before a
// big read saves the per-message wake-ups), status sent at a third of wal_sender_timeout and whenever the confirmed
// position moved and nothing more is to be read.
#pragma once
#include <functional>
#include <memory>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/source/reader.hpp>
#include <string>
#include <vector>

namespace pgbaton::source {

struct WalsenderOptions {
  std::string slot;
  std::vector<std::string> publications;
  Lsn start_lsn;  // transactions with commit LSN below it are not sent again
  // What the server is told at first, because it is durable on the target: at or below start_lsn. 0: start_lsn.
  Lsn confirmed_lsn;
  // The server that was looked at before, which this connection must have reached, too; 0: any.
  std::uint64_t system_identifier = 0;
  std::uint32_t timeline = 0;
  // Called when the slot is this reader's, before the server is told any position: what is found now stays.
  std::function<void()> once_held;
};

// Throws Error: boundary_lost when the slot is gone, lost or someone else's; failed otherwise (retry where it helps).
std::unique_ptr<ChangeReader> open_walsender(const pg::Endpoint& source, const WalsenderOptions& options);

}  // namespace pgbaton::source
