// The frames of the streaming replication protocol around pgoutput: what CopyData carries.
// PostgreSQL documentation, "Streaming Replication Protocol".
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/wire/message.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <variant>

namespace pgbaton::wire {

struct XLogData {
  Lsn start_lsn;
  Lsn wal_end_lsn;  // the server's end of WAL; never acknowledged
  TimestampUs send_time = 0;
  std::span<const std::byte> body;  // a view into the frame
};
struct Keepalive {
  Lsn wal_end_lsn;  // every transaction that committed before this has been sent
  TimestampUs send_time = 0;
  bool reply_requested = false;
};
using ReplicationFrame = std::variant<XLogData, Keepalive>;

// Throws Error as decode() does.
ReplicationFrame decode_frame(std::span<const std::byte> copy_data);

// Standby status update. written and flushed are what has been received and what is durable on the target.
std::array<std::byte, 34> encode_status(Lsn written_lsn, Lsn flushed_lsn, Lsn applied_lsn, TimestampUs now,
                                        bool reply_requested);

// One CopyData of COPY (SELECT lsn, data FROM pg_logical_slot_peek_binary_changes(…)) TO STDOUT (FORMAT binary).
struct PeekedRow {
  Lsn message_lsn;
  std::span<const std::byte> body;  // one pgoutput message, a view into the frame
};
// nullopt: the end of the rows. Throws Error as decode() does.
std::optional<PeekedRow> decode_peeked_row(std::span<const std::byte> copy_data);

// What a reader has to know of a pgoutput message without decoding all of it.
bool is_begin(std::span<const std::byte> message);
std::optional<Lsn> commit_end_lsn(std::span<const std::byte> message);  // nullopt: no Commit

}  // namespace pgbaton::wire
