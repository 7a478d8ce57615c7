#include <pgbaton/pg/ping.hpp>

#include <libpq-fe.h>

#include <vector>

#include "conninfo.hpp"

namespace pgbaton::pg {

bool answers(const Endpoint& endpoint) {
  auto items = effective_items(endpoint.conninfo);
  std::erase_if(items, [](const auto& item) { return item.second.empty(); });
  if (find_item(items, "connect_timeout").empty()) items.emplace_back("connect_timeout", "10");
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : items) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  switch (PQpingParams(keywords.data(), values.data(), 0)) {
    case PQPING_OK:
    case PQPING_REJECT:
      return true;
    case PQPING_NO_RESPONSE:
    case PQPING_NO_ATTEMPT:
      return false;
  }
  return false;
}

}  // namespace pgbaton::pg
