// Reading events back, for --events FILE.
#include <pgbaton/state/store.hpp>

namespace pgbaton::state {

std::vector<Event> Store::load_events(const std::string& name, std::int64_t after_id) {
  if (!installed()) return {};
  return pg::control(Side::target, "reading events", [&] {
    std::vector<Event> events;
    pqxx::nontransaction tx(connection_);
    for (auto row :
         tx.exec_params("select id, to_char(at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"') as at, "
                        "kind, coalesce(detail::text, '') as detail from pgbaton.event "
                        "where replica = $1 and id > $2 and kind <> $3 order by id",
                        name, after_id, std::string(kSchemaPart)))
      events.push_back({row["id"].as<std::int64_t>(), row["at"].as<std::string>(), row["kind"].as<std::string>(),
                        row["detail"].as<std::string>()});
    return events;
  });
}

}  // namespace pgbaton::state
