// One table in one transaction of a repair. Errors leave the writer's transaction to be rolled back to before it.
#pragma once
#include <pgbaton/base/error.hpp>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "foreign_actions.hpp"
#include "repair.hpp"
#include "repair_sql.hpp"
#include "side_session.hpp"

namespace pgbaton::verify {

class RepairTable {
 public:
  RepairTable(const TablePlan& plan, Lsn cut_lsn, SideSession& source, SideSession& target, pg::Connection& writer);

  // Rows written or removed.
  std::int64_t mend(const RepairBatch& batch);
  // Why some of its rows were left as they are.
  std::vector<Error> take_refused() { return std::move(refused_); }

 private:
  using Keys = std::vector<RowTexts>;
  struct Work {
    Keys remove;
    std::size_t remove_rows = 0;  // more than the keys where the target has no unique key
    std::map<std::vector<std::size_t>, std::vector<RowTexts>> update;  // by the columns that differ
    std::vector<RowTexts> insert;
    std::set<RowTexts> keys;  // all of these
  };

  std::int64_t mend_keyed(const Keys& keys);
  std::int64_t mend_at_once(const Keys& keys);
  std::int64_t mend_keyless(const std::vector<Difference>& differences);
  Work plan_work(const Keys& keys);
  void plan_row(Work& work, const RowTexts& key, const RowTexts& wanted, const RowTexts& found) const;
  void leave_out_parents(Work& work);
  void write(const Work& work);
  std::int64_t write_or_replace(const Work& work);
  const std::vector<ForeignAction>& actions();
  void refuse_deletes(const Keys& keys);
  Error loses_columns(const RowTexts& key) const;

  const TablePlan& plan_;
  const Lsn cut_lsn_;
  SideSession &source_, &target_;
  pg::Connection& writer_;
  std::optional<std::vector<ForeignAction>> actions_;
  std::vector<Error> refused_;
};

// What the failure of a batch means, for people.
RepairFailure explain_failure(const RepairBatch& batch, const Error& error);

}  // namespace pgbaton::verify
