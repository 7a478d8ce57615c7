#include "fingerprint.hpp"

#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/choice.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

namespace pgbaton::snapshot {

namespace {

using Json = nlohmann::ordered_json;

std::string_view to_string(SchemaMode mode) {
  switch (mode) {
    case SchemaMode::full:
      return "full";
    case SchemaMode::none:
      return "none";
  }
  return "full";
}

std::string_view to_string(Keyless keyless) {
  switch (keyless) {
    case Keyless::insert_only:
      return "insert-only";
    case Keyless::full:
      return "full";
    case Keyless::exclude:
      return "exclude";
  }
  return "insert-only";
}

Json as_json(const CloneOptions& options, const catalog::Server& source) {
  const auto& filter = options.filter;
  Json choices = Json::array();
  for (const auto& choice : filter.choices)
    choices.push_back({{"name", choice.name}, {"columns", choice.columns}, {"where", choice.where}});
  return Json{{"source_system_id", std::to_string(source.system_identifier)},
              {"source_database", source.database},
              {"schema", to_string(options.schema)},
              {"guard", state::to_string(options.guard)},
              {"keyless", to_string(options.keyless)},
              {"publication", options.publication},
              {"include_tables", filter.include_tables},
              {"exclude_tables", filter.exclude_tables},
              {"include_schemas", filter.include_schemas},
              {"exclude_schemas", filter.exclude_schemas},
              {"exclude_data", filter.exclude_data},
              {"tables", choices}};
}

// As the user writes it.
std::string_view option_of(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kOptions{
      {{"source_system_id", "the source's system identifier"},
       {"source_database", "the source's database"},
       {"schema", "--schema"},
       {"guard", "--guard"},
       {"keyless", "--keyless"},
       {"publication", "--publication"},
       {"include_tables", "--include-table"},
       {"exclude_tables", "--exclude-table"},
       {"include_schemas", "--include-schema"},
       {"exclude_schemas", "--exclude-schema"},
       {"exclude_data", "--exclude-data"},
       {"tables", "tables"}}};
  const auto found = std::ranges::find(kOptions, key, &std::pair<std::string_view, std::string_view>::first);
  return found == kOptions.end() ? key : found->second;
}

std::string shown(const Json& value) {
  return value.empty() || value == "" ? "not given" : value.dump();
}

}  // namespace

std::string options_json(const CloneOptions& options, const catalog::Server& source) {
  return as_json(options, source).dump();
}

void require_same_options(const state::Replica& replica, const CloneOptions& options, const catalog::Server& source) {
  auto now = as_json(options, source);
  auto then = Json::parse(replica.options, nullptr, false);
  if (then.is_discarded() || !then.is_object())
    throw Error(ErrorKind::usage, "pgbaton.replica.options of " + replica.name + " cannot be read")
        .side(Side::target)
        .hint("Begin anew with --restart.");
  std::string differences;
  for (const auto& [key, value] : now.items()) {
    auto before = then.contains(key) ? then[key] : Json();
    if (before != value)
      differences += fmt::format("{}{} was {} and is now {}", differences.empty() ? "" : "; ", option_of(key),
                                 shown(before), shown(value));
  }
  if (differences.empty()) return;
  throw Error(ErrorKind::usage, fmt::format("replica {} was begun with other options: {}", replica.name, differences))
      .hint("Use the same source and options again, give another --name, or begin anew with --restart.");
}

void apply_recorded_choice(const state::Replica& replica, CloneOptions& options) {
  auto recorded = Json::parse(replica.options, nullptr, false);
  if (!recorded.is_object()) return;
  auto list = [&](const char* key) { return recorded.value(key, std::vector<std::string>()); };
  options.filter = {list("include_tables"),  list("exclude_tables"), list("include_schemas"),
                    list("exclude_schemas"), list("exclude_data"),   {}};
  options.filter.choices = catalog::recorded_choices(replica.options);
  options.guard = state::parse_guard_kind(recorded.value("guard", "column"));
  options.schema = recorded.value("schema", "full") == "none" ? SchemaMode::none : SchemaMode::full;
}

std::string error_json(const Error& error) {
  Json json{{"kind", pgbaton::to_string(error.kind())},
            {"exit_code", exit_code(error.kind())},
            {"message", error.describe()},
            {"hint", error.hint()},
            {"at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))}};
  // A server message may hold bytes that are no UTF-8; they must not hide the error.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pgbaton::snapshot
