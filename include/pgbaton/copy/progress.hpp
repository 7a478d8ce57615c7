// What a copy has done so far: written by the workers of copy and snapshot, read by the display. From any thread.
#pragma once
#include <pgbaton/base/time.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pgbaton::copy {

enum class Step { preparing, slot, schema, tables, rest };

struct TableInFlight {
  std::string name;  // of a table, with " part 2 of 5" when it is copied in parts
  bool indexing = false;
  std::int64_t bytes_total = 0;  // its size on the source
  Clock::time_point since = Clock::now();
  std::atomic<std::int64_t> bytes{0};  // copied so far
};

class TablesInFlight {
 public:
  // Listed as long as the result lives.
  std::shared_ptr<TableInFlight> add(const std::string& name, bool indexing, std::int64_t bytes_total);
  // Those being copied first, each kind in the order in which it was begun. A holder of the result keeps them listed.
  std::vector<std::shared_ptr<const TableInFlight>> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<TableInFlight>> tables_;
};

struct CopyProgress {  // counters are monotone within a run, but for size_done (parts of a table that must begin anew)
  std::atomic<Step> step{Step::preparing};
  std::atomic<std::int64_t> tables_done{0}, rows{0}, bytes{0};
  std::atomic<std::int64_t> tables_total{0}, bytes_total{0};  // set before the first table is copied
  std::atomic<std::int64_t> tables_indexed{0};
  // Of bytes_total, what belongs to tables that are copied, and indexed. `bytes` is what COPY carried: often less.
  std::atomic<std::int64_t> size_done{0}, size_indexed{0};
  TablesInFlight in_flight;
};

}  // namespace pgbaton::copy
