// The reader of a replica's slot: the walsender (walsender.hpp) near the end of the WAL, SQL peek in large steps for a
// backlog, and the way from one to the other in both directions, at a border of transactions. Both yield the same
// bytes.
//
// Two slots take part in peeking. A is the replica's, and stays where confirm() says. B is a temporary copy of it
// ("<slot>__read") that only this reader's session has: it is advanced behind every step to the end of the last
// transaction that was handed out, so that the next step can be read while this one is applied. A temporary slot ends
// with its session, so nothing of B outlives a crash of the tool or of the source, and no state has to know of it.
#pragma once
#include <pgbaton/pg/control.hpp>
#include <pgbaton/pg/endpoint.hpp>
#include <pgbaton/source/reader.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pgbaton::source {

// automatic: what suits the lag, and the walsender where this source cannot be peeked. peek: never the walsender.
enum class ReaderMode { automatic, walsender, peek };

// What outlives a reader, for the one that follows it.
struct ReaderMemory {
  Clock::time_point no_peek_before{};  // it was found impossible: to be tried again then
};

struct ReaderOptions {
  ReaderMode mode = ReaderMode::automatic;
  std::string slot;
  std::vector<std::string> publications;
  Lsn start_lsn;         // the applied position: transactions with commit LSN below it are not sent again
  Lsn source_flush_lsn;  // what the source has written by now
  // The server that was looked at before, which these connections must reach, too; 0: any.
  std::uint64_t system_identifier = 0;
  std::uint32_t timeline = 0;
  // Called in the thread of next(), at each change of readers, when the slot is the new one's or has been copied. The
  // argument is confirm()'s last one.
  std::function<void(Lsn durable_end_lsn)> once_held;
  ReaderMemory* memory = nullptr;  // outlives the reader
};

// Throws what open_walsender() throws; Error(preflight) when a slot of B's name is somebody else's.
std::unique_ptr<ChangeReader> open_reader(const pg::Endpoint& source, ReaderOptions options);

// B's name; that of a slot with a longer name than a replica's has room for it, too (30 characters, DESIGN 8).
std::string read_slot_name(const std::string& slot);
// Ends the session that has B, if a writer of this replica was left behind with it. True when there was one.
// Error(preflight) when the slot is not of that kind.
bool end_read_session(pg::Control& source, const std::string& slot, const std::string& replica_name);

}  // namespace pgbaton::source
