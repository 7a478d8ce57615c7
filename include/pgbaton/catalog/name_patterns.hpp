// Names of tables as options and settings give them.
#pragma once
#include <pgbaton/base/name.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::catalog {

// Whether one of these patterns, by the rules of TableFilter (pgbaton/catalog/table.hpp), means this table.
// Error(usage) that names `origin` for one that cannot be read; one that means no table is none.
bool matches_any(const std::vector<std::string>& patterns, const QualifiedName& name, std::string_view origin);

}  // namespace pgbaton::catalog
