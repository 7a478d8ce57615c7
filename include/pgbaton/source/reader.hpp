// Reading one slot, in commit order. Behind this interface stand the walsender (walsender.hpp), a catch-up reader over
// SQL peek, and the one that chooses between them (open_reader.hpp); all yield the same bytes.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/base/time.hpp>

#include <cstddef>
#include <span>
#include <variant>

namespace pgbaton::source {

// One pgoutput message. The view is valid until the next next().
struct Frame {
  Lsn message_lsn;
  std::span<const std::byte> body;
};
// Every transaction with commit LSN < lsn has been handed out; inside a transaction (keepalives come in the middle of a
// large one too) it says nothing and is to be dropped.
struct Position {
  Lsn lsn;
};
// Nothing came before the deadline.
struct Idle {
  bool working = false;  // the source is at work on what comes next
};
// stop() was called: said by every next() from then on.
struct Stopped {};
using ReadEvent = std::variant<Frame, Position, Idle, Stopped>;

// One thread calls next() and keep_alive(); confirm() and stop() from any thread.
struct ChangeReader {
  virtual ~ChangeReader() = default;
  virtual ReadEvent next(Deadline deadline) = 0;
  // Sends status when due and reads nothing: for a caller whose queue is full, so that the source is answered in time.
  virtual void keep_alive() = 0;
  // Monotone; the only road to the slot. Every transaction with commit LSN < durable_end_lsn is durable on the target.
  virtual void confirm(Lsn durable_end_lsn) noexcept = 0;
  // The next next() returns Stopped, one that waits does so at once, whatever is still to be read: the reader knows no
  // transactions. A caller that wants to end at a border calls stop() at one.
  virtual void stop() noexcept = 0;
  // Asks the source to report its position soon, for a caller that waits for one. Any thread.
  virtual void request_position() noexcept = 0;
  // How far the source has written, for a reader that has a choice of ways. Any thread.
  virtual void source_has_written(Lsn /*flush_lsn*/) noexcept {}
  // What the slot has been told last.
  virtual Lsn confirmed_lsn() const noexcept = 0;
};

}  // namespace pgbaton::source
