#include <algorithm>
#include <pgbaton/copy/progress.hpp>

namespace pgbaton::copy {

std::shared_ptr<TableInFlight> TablesInFlight::add(const std::string& name, bool indexing, std::int64_t bytes_total) {
  auto table = std::make_shared<TableInFlight>();
  table->name = name;
  table->indexing = indexing;
  table->bytes_total = bytes_total;
  const std::lock_guard lock(mutex_);
  std::erase_if(tables_, [](const auto& known) { return known.expired(); });
  tables_.push_back(table);
  return table;
}

std::vector<std::shared_ptr<const TableInFlight>> TablesInFlight::list() const {
  std::vector<std::shared_ptr<const TableInFlight>> living;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& known : tables_)
      if (auto table = known.lock()) living.push_back(std::move(table));
  }
  std::ranges::stable_sort(living, {}, [](const auto& table) { return table->indexing; });
  return living;
}

}  // namespace pgbaton::copy
