// What CopyData carries in both directions, in network byte order.
//
//   from the server := xlog_data | keepalive
//   xlog_data       := 'w' Lsn(start)  Lsn(the server's end of WAL)  Int64(time)  Byte*(one pgoutput message)
//   keepalive       := 'k' Lsn(the server's end of WAL)  Int64(time)  Int8(1: answer at once, else 0)
//   status, to it   := 'r' Lsn(written)  Lsn(flushed)  Lsn(applied)  Int64(time)  Int8(1: answer at once)
#include <pgbaton/wire/replication.hpp>

#include "cursor.hpp"

namespace pgbaton::wire {

namespace {

XLogData xlog_data(Cursor& in) {
  XLogData frame;
  frame.start_lsn = in.lsn("the start LSN");
  frame.wal_end_lsn = in.lsn("the server's end of WAL");
  frame.send_time = in.i64("the time of sending");
  frame.body = in.rest();
  return frame;
}

Keepalive keepalive(Cursor& in) {
  Keepalive frame;
  frame.wal_end_lsn = in.lsn("the server's end of WAL");
  frame.send_time = in.i64("the time of sending");
  frame.reply_requested = in.flag("the request for a reply: 0 or 1");
  in.end();
  return frame;
}

std::byte* put64(std::byte* to, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) *to++ = static_cast<std::byte>(value >> shift & 0xFF);
  return to;
}

}  // namespace

ReplicationFrame decode_frame(std::span<const std::byte> copy_data) {
  constexpr auto kType = "a frame type: w or k";
  Cursor in(Grammar::replication_frame, copy_data);
  switch (in.message_type()) {
    case 'w':
      return xlog_data(in);
    case 'k':
      return keepalive(in);
  }
  in.fail_before(1, kType);
}

std::array<std::byte, 34> encode_status(Lsn written_lsn, Lsn flushed_lsn, Lsn applied_lsn, TimestampUs now,
                                        bool reply_requested) {
  std::array<std::byte, 34> frame{};
  std::byte* to = frame.data();
  *to++ = std::byte{'r'};
  to = put64(to, written_lsn.value);
  to = put64(to, flushed_lsn.value);
  to = put64(to, applied_lsn.value);
  to = put64(to, static_cast<std::uint64_t>(now));
  *to = reply_requested ? std::byte{1} : std::byte{0};
  return frame;
}

}  // namespace pgbaton::wire
