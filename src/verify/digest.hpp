// The first look: rows and sums of row hashes per bucket, on both sides at the same time, piece by piece of the heap.
//
//   worker 1..jobs (source)   piece, piece, piece …   ┐
//   worker 1..jobs (target)   piece, piece, piece …   ┴→ per table and side: bucket → (rows, sum of hashes mod 2^64)
//
// Sums do not depend on the order or on how a heap is cut into pieces, so each side has its own pieces: ranges of
// blocks from 14 on (a TID range scan reads just these), the whole table before.
#pragma once
#include <pgbaton/base/time.hpp>
#include <pgbaton/pg/endpoint.hpp>

#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "table_plan.hpp"

namespace pgbaton::verify {

struct Bucket {
  std::int64_t rows = 0;
  std::uint64_t sum = 0;
  bool operator==(const Bucket&) const = default;
};
using Buckets = std::map<std::int64_t, Bucket>;

struct SideDigest {
  Buckets buckets;
  std::int64_t rows = 0;
  Milliseconds time{0};  // of the connections, together
  bool moved = false;    // rewritten or dropped since the cut: to be compared at another one
};
struct TableDigest {
  std::array<SideDigest, 2> sides;
  bool moved() const { return sides[0].moved || sides[1].moved; }
  // The buckets that are not the same.
  std::vector<std::int64_t> differing() const;
};

struct ScanOptions {
  pg::Endpoint source, target;
  std::string source_snapshot, target_snapshot;
  int jobs = 4;
  std::uint64_t max_rate = 0;
  Deadline deadline = Deadline::never();
};

// In the order of `plans`. Throws the first error, after all workers have ended.
std::vector<TableDigest> digest_tables(const ScanOptions& options, const std::vector<TablePlan>& plans,
                                       const std::stop_token& stop);

// numeric text, also negative and beyond 64 bits.
std::uint64_t parse_sum(std::string_view text);

}  // namespace pgbaton::verify
