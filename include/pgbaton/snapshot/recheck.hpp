// What has changed on the source since the replica was planned and is not for the stream to notice: DDL sends nothing.
#pragma once
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/doubt.hpp>
#include <pgbaton/state/store.hpp>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::snapshot {

struct Catalogs;

// Finds why the replica may not be whole (state/doubt.hpp) and stores it; warns, once for each: of that, of tables
// whose updates are published though they have no usable identity any more (they fail on the source), and of columns
// that were dropped on the source and stay on the target (also an event, and a note in `status`). Keeps the recorded
// shapes up to date where the target has the source's columns, so that a table rewritten meanwhile can be given new
// columns again. One thread.
class ChangeReport {
 public:
  // Reads the source; opens the target the first time, and then when something has changed. `tables` follow what is
  // recorded. Returns what is in doubt by this look; what only a comparison settles, and was found before, is stored.
  std::vector<state::Doubt> look(pg::Control& source, const std::function<pg::Control&()>& target,
                                 const state::Replica& replica, std::vector<state::TableState>& tables);

 private:
  struct Where {
    const std::function<pg::Control&()>& target;
    const state::Replica& replica;
    const std::map<catalog::Oid, catalog::Oid>& toast;  // of the source, by table
  };
  bool warn_once(const std::string& about, const std::string& message);
  static std::string picture(const Catalogs& source, const std::set<QualifiedName>& published);
  void warn_of_identity(const catalog::Table& table, const state::TableState& state);
  void report_dropped(const Where& where, const std::string& column, const catalog::Table& table,
                      state::TableState& seen);
  void keep_shape(const Where& where, const catalog::Table& table, const catalog::Table& on_target,
                  state::TableState& state);
  std::set<std::string> told_;
  std::string seen_;       // the catalogs at the last look
  bool changing_ = false;  // what was found then goes when the target is mended
};

}  // namespace pgbaton::snapshot
