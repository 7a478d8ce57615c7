#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/failpoint.hpp>
#include <pgbaton/base/log.hpp>
#include <pgbaton/catalog/event_triggers.hpp>
#include <pgbaton/catalog/server.hpp>
#include <pgbaton/snapshot/way_back.hpp>
#include <pgbaton/source/history.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "generation.hpp"
#include "plan.hpp"

namespace pgbaton::snapshot {

namespace {

using Json = nlohmann::ordered_json;

using Notes = std::map<QualifiedName, std::string>;

// Tables of the replica whose rows are not carried, and why.
Notes skipped_tables(const std::vector<state::TableState>& tables) {
  Notes notes;
  for (const auto& table : tables)
    if (table.phase == state::TablePhase::skipped) notes.emplace(table.name, table.note);
  return notes;
}

// What the replica carries, and no other table of that server; partitioned ones stand for their partitions. What it
// knows and does not carry stays known.
CloneOptions choice(pg::Control& from, const std::vector<state::TableState>& tables, const WayBackRequest& request) {
  std::set<QualifiedName> carried;
  for (const auto& table : tables)
    if (table.phase != state::TablePhase::skipped && !table.detached) carried.insert(table.name);
  const auto skipped = skipped_tables(tables);
  CloneOptions options;
  options.names = way_back_names(ReplicaNames(request.replica.name), request.reversed);
  options.guard = state::GuardKind::none;
  for (const auto& table : catalog::load_tables(from, {}, Side::target))
    if (table.kind == 'r' && !carried.contains(table.name))
      (skipped.contains(table.name) ? options.filter.exclude_data : options.filter.exclude_tables)
          .push_back(table.name.quoted());
  return options;
}

Json tables_of(const TablePlan& plan, const Notes& skipped) {
  Json tables = Json::array();
  for (const auto& job : plan.jobs) {
    const auto& state = job.state;
    const auto known = skipped.find(state.name);
    tables.push_back({{"schema_name", state.name.schema},
                      {"table_name", state.name.name},
                      {"source_oid", state.source_oid},
                      {"skipped", state.phase == state::TablePhase::skipped},
                      {"inserts_only", state.inserts_only},
                      {"note", known != skipped.end() && job.table.kind == 'r' ? known->second : state.note},
                      {"source_shape", Json::parse(state.source_shape)}});
  }
  return tables;
}

Json options_of(const state::Replica& replica, const catalog::Server& from) {
  auto options = Json::parse(replica.options, nullptr, false);
  if (!options.is_object()) options = Json::object();
  options["source_system_id"] = std::to_string(from.system_identifier);
  options["source_database"] = from.database;
  options["guard"] = "none";
  options["schema"] = "full";
  options["publication"] = "";
  return options;
}

Json record_of(const WayBackRequest& request, const TablePlan& plan, const catalog::Server& from,
               const std::string& slot, const Notes& skipped) {
  return Json{{"generation", new_uuid()},
              {"direction", request.reversed ? "forward" : std::string(state::kReverse)},
              {"source_system_id", std::to_string(from.system_identifier)},
              {"source_timeline", from.timeline},
              {"source_database", from.database},
              {"slot", slot},
              {"publication", plan.publications.publication},
              {"publication_inserts", plan.publications.publication_inserts},
              {"options", options_of(request.replica, from)},
              {"publication_state", nullptr},
              {"tables", tables_of(plan, skipped)}};
}

}  // namespace

ReplicaNames way_back_names(const ReplicaNames& names, bool reversed) {
  ReplicaNames result(names.name);
  if (reversed) return result;
  result.base += "__back";
  result.publication_inserts = result.base + "_ins";
  return result;
}

void make_way_back(const WayBackRequest& request, const std::stop_token& stop) {
  auto from = pg::open_control(request.from, "way-back");
  state::Store store(*from);
  unmake_way_back(*from, request.replica);
  const auto tables = store.load_tables(request.replica);
  const auto options = choice(*from, tables, request);
  const auto plan = plan_tables(*from, nullptr, options);
  auto record =
      record_of(request, plan, catalog::load_server(*from, Side::target), options.names.base, skipped_tables(tables));
  state::store_way_back(*from, request.replica, record.dump());
  PGBATON_FAILPOINT("way_back_recorded");
  {
    const catalog::EventTriggersSilenced silent(*from, Side::target);
    source::create_publications(*from, plan.publications);
  }
  std::vector<std::string> publications{plan.publications.publication};
  if (!plan.publications.publication_inserts.empty()) publications.push_back(plan.publications.publication_inserts);
  record["publication_state"] = Json::parse(source::load_publication_state(*from, publications));
  source::SlotSnapshot::create(request.from, {.name = options.names.base, .wait = request.slot_wait}, stop);
  state::store_way_back(*from, request.replica, record.dump());
  PGBATON_FAILPOINT("way_back_made");
}

std::vector<std::string> drop_way_back_objects(pg::Control& from, const state::WayBack& way_back) {
  const catalog::EventTriggersSilenced silent(from, Side::target);
  std::vector<std::string> removed;
  if (source::drop_slot(from, way_back.slot, true))
    removed.push_back(fmt::format("slot {} on the target", way_back.slot));
  for (const auto& name : {way_back.publication, way_back.publication_inserts})
    if (!name.empty() && source::drop_publication(from, name))
      removed.push_back(fmt::format("publication {} on the target", name));
  return removed;
}

void unmake_way_back(pg::Control& from, const state::Replica& replica) {
  const auto found = state::load_way_back(from, replica.name);
  if (!found || found->from_lsn) return;
  const auto now = state::Store(from).load_replica(replica.name);
  if (!now || now->generation != replica.generation || now->epoch != replica.epoch) return;  // somebody else's by now
  for (const auto& line : drop_way_back_objects(from, *found)) log::debug("removed {}", line);
  state::store_way_back(from, replica, "");
}

bool forget_way_back_to(pg::Control& source, const state::Replica& replica) {
  state::Store store(source);
  const auto row = store.load_replica(replica.name);
  const auto found = state::load_way_back(source, replica.name);
  if (!row || row->direction != state::kSwitched || !found || found->generation != replica.generation) return false;
  store.delete_replica(replica.name);
  store.drop_schema_if_unused();
  return true;
}

}  // namespace pgbaton::snapshot
