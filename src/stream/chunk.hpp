// What travels through the queue from the receiver to the applier: the changes of one or more source transactions, in
// commit order, with the bytes they point into. A transaction larger than a chunk spans several.
//
//   changes   a a a b b c c c c …          (b: one change of a transaction without rows for us leaves only a border)
//   borders        ^   ^                   c is unfinished: its border comes in a later chunk
#pragma once
#include <pgbaton/apply/change.hpp>
#include <pgbaton/base/arena.hpp>
#include <pgbaton/base/lsn.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace pgbaton::stream {

struct Border {
  std::size_t change_end = 0;  // changes [.., change_end) of the chunk belong to this transaction or an earlier one
  Lsn commit_lsn, end_lsn;
  std::int64_t commit_time = 0;
  bool abandoned = false;  // ends beyond the position asked for: forget its changes
};

struct Chunk {
  Arena arena;
  std::vector<apply::Change> changes;
  std::vector<Border> borders;
  std::vector<std::shared_ptr<const apply::TargetTable>> tables;  // keeps alive what changes point at
  Lsn position;  // not 0: after all this, every transaction with commit LSN < position has been handed out

  bool empty() const { return changes.empty() && borders.empty() && !position; }
  std::size_t bytes() const {
    return arena.bytes() + changes.size() * sizeof(apply::Change) + borders.size() * sizeof(Border) + 256;
  }
};

}  // namespace pgbaton::stream
