// What CopyData carries in both directions, in network byte order.
//
//   from the server := xlog_data | keepalive
//   xlog_data       := 'w' Lsn(start)  Lsn(the server's end of WAL)  Int64(time)  Byte*(one pgoutput message)
//   keepalive       := 'k' Lsn(the server's end of WAL)  Int64(time)  Int8(1: answer at once, else 0)
//   peeked row      := [signature  Int32(flags)  Int32(length) Byte*(extension)]  Int16(2) Int32(8) Lsn  Int32(length)
//                      Byte*(one pgoutput message); the first row carries what stands in brackets
//   end of the rows := [the same, when there was no row]  Int16(-1)
//   status, to it   := 'r' Lsn(written)  Lsn(flushed)  Lsn(applied)  Int64(time)  Int8(1: answer at once)
#include <pgbaton/wire/replication.hpp>

#include "cursor.hpp"

#include <algorithm>
#include <string_view>

namespace pgbaton::wire {

namespace {

// PostgreSQL documentation, COPY, "Binary Format".
constexpr std::string_view kCopySignature("PGCOPY\n\377\r\n\0", 11);

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

namespace {

bool has_copy_header(std::span<const std::byte> copy_data) {
  return copy_data.size() >= kCopySignature.size() &&
         std::ranges::equal(copy_data.first(kCopySignature.size()), kCopySignature, {}, {},
                            [](char c) { return static_cast<std::byte>(c); });
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

std::optional<PeekedRow> decode_peeked_row(std::span<const std::byte> copy_data) {
  const bool first = has_copy_header(copy_data);
  Cursor in(Grammar::peeked_row, first ? copy_data.subspan(kCopySignature.size()) : copy_data);
  if (first) {
    if (in.i32("the flags of a binary COPY: 0") != 0) in.fail_before(4, "the flags of a binary COPY: 0");
    in.counted("the extension of the header");
  }
  constexpr auto kFields = "a count of fields: 2, or -1 at the end";
  const auto fields = in.i16(kFields);
  if (fields == -1) return in.end(), std::nullopt;
  if (fields != 2) in.fail_before(2, kFields);
  if (in.i32("the length of an LSN: 8") != 8) in.fail_before(4, "the length of an LSN: 8");
  PeekedRow row;
  row.message_lsn = in.lsn("the message's LSN");
  row.body = as_bytes(in.counted("the message"));
  in.end();
  return row;
}

bool is_begin(std::span<const std::byte> message) {
  return !message.empty() && message.front() == std::byte{'B'};
}

std::optional<Lsn> commit_end_lsn(std::span<const std::byte> message) {
  if (message.empty() || message.front() != std::byte{'C'}) return std::nullopt;
  Cursor in(Grammar::pgoutput, message);
  in.message_type();
  in.u8("the flags of a commit");
  in.lsn("the commit LSN");
  return in.lsn("the end LSN");
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
