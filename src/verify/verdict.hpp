// What a comparison says of the replica's doubts (pgbaton/state/doubt.hpp). Rows that it finds to differ are a doubt of
// their own until a comparison of the whole table finds none: whoever did not read the output of `verify` still learns
// of them. Private to the module.
#pragma once
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/store.hpp>
#include <pgbaton/verify/verify.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace pgbaton::verify {

class Verdict {
 public:
  // Reads the doubts as they are before the comparison. References must outlive the object.
  Verdict(pg::Control& target, const state::Replica& replica, const Options& options);

  // By the first comparison: stored at once, since a repair may fail.
  void found(const std::vector<TableResult>& tables);
  void compared_again(const std::vector<TableResult>& tables);
  // A comparison of the whole table that ends without a difference settles what was in doubt when it began; one of a
  // part takes back its own findings only. Returns what stays in doubt of the tables of the report, compared or not,
  // but for what was found here.
  std::vector<state::Doubt> settle(const Report& report);

 private:
  pg::Control& target_;
  const state::Replica& replica_;
  const Options& options_;
  const bool whole_;
  std::int64_t last_id_ = 0;                    // of the doubts before
  std::map<QualifiedName, std::int64_t> left_;  // differences by the last comparison of each table
  std::set<std::int64_t> own_;                  // findings of this run
};

}  // namespace pgbaton::verify
