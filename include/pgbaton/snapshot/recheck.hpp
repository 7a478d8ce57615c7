// What has changed on the source since the replica was planned and is not for the stream to notice: DDL sends nothing.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/store.hpp>

#include <set>
#include <string>
#include <vector>

namespace pgbaton::snapshot {

// Warns of each table that the replica's own choice takes in and that came later (it is not carried), and of each whose
// updates are published though it has no usable identity any more (they fail on the source): once for each table.
class ChangeReport {
 public:
  // Reads only.
  void look(pg::Control& source, const state::Replica& replica, const std::vector<state::TableState>& tables);

 private:
  void warn_once(const catalog::Table& table, const std::string& message);
  std::set<std::string> told_;
};

}  // namespace pgbaton::snapshot
