// A text[] of a result without NULLs. Private to the module.
#pragma once
#include <pqxx/pqxx>
#include <string>
#include <tuple>
#include <vector>

namespace pgbaton::catalog {

inline std::vector<std::string> read_names(const pqxx::field& field) {
  std::vector<std::string> names;
  auto parser = field.as_array();
  for (auto [what, text] = parser.get_next(); what != pqxx::array_parser::juncture::done;
       std::tie(what, text) = parser.get_next()) {
    if (what == pqxx::array_parser::juncture::string_value) names.push_back(text);
  }
  return names;
}

}  // namespace pgbaton::catalog
