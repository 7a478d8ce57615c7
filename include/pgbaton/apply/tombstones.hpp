// Which deletes of the ordinary stream leave a tombstone (DESIGN 4): all of them (`tombstones: always`), or those of
// tables for which a change older than the delete can still arrive. Tables whose delivery is any_order and tables with
// a ledger leave one in any case.
//
// Any thread; the applier asks when it writes, so that a wish counts from the next window on.
#pragma once
#include <pgbaton/base/name.hpp>

#include <mutex>
#include <set>

namespace pgbaton::apply {

class TombstoneRule {
 public:
  explicit TombstoneRule(bool always = false) : always_(always) {}
  void want_only(std::set<QualifiedName> tables) {
    std::lock_guard lock(mutex_);
    tables_ = std::move(tables);
  }
  bool wanted(const QualifiedName& table) const {
    if (always_) return true;
    std::lock_guard lock(mutex_);
    return tables_.contains(table);
  }

 private:
  const bool always_;
  mutable std::mutex mutex_;
  std::set<QualifiedName> tables_;  // as the target names them
};

}  // namespace pgbaton::apply
