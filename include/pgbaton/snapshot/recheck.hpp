// What has changed on the source since the replica was planned and is not for the stream to notice: DDL sends nothing.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::snapshot {

// Warns, once for each: of tables that the replica's own choice takes in and that came later (not carried), of tables
// whose updates are published though they have no usable identity any more (they fail on the source), and of columns
// that were dropped on the source and stay on the target, or whose name another column has (also an event, and a note
// in `status`). Keeps the recorded shapes up to date where the target has the source's columns, so that a table
// rewritten meanwhile can be given new columns again.
class ChangeReport {
 public:
  // Reads the source; opens the target only when there is something to record. `tables` follow what is recorded.
  void look(pg::Control& source, const std::function<pg::Control&()>& target, const state::Replica& replica,
            std::vector<state::TableState>& tables);

 private:
  struct Where {
    const std::function<pg::Control&()>& target;
    const state::Replica& replica;
  };
  bool warn_once(const std::string& about, const std::string& message);
  void report_column(const Where& where, const std::string& column, std::string_view kind, const std::string& what,
                     const std::string& statement, state::TableState& seen);
  void compare_shape(const Where& where, const catalog::Table& table, state::TableState& state);
  std::set<std::string> told_;
};

}  // namespace pgbaton::snapshot
