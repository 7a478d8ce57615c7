#include <fmt/format.h>
#include <pgbaton/catalog/choice.hpp>
#include <pgbaton/catalog/name_patterns.hpp>

#include <algorithm>
#include <unordered_map>

namespace pgbaton::catalog {
namespace {

// One name with wildcards: what the user wrote after folding and unquoting, and which characters are wildcards.
struct NamePattern {
  std::string text;
  std::vector<bool> is_wildcard;

  void add(char c, bool wildcard) {
    text += c;
    is_wildcard.push_back(wildcard);
  }
  bool matches(std::string_view name) const { return matches_from(0, name); }

 private:
  // ? stands for one character, which in UTF-8 may be several bytes.
  static std::size_t character_length(std::string_view name) {
    std::size_t n = 1;
    while (n < name.size() && (static_cast<unsigned char>(name[n]) & 0xC0u) == 0x80u) ++n;
    return n;
  }
  bool matches_from(std::size_t at, std::string_view name) const {
    for (; at < text.size(); ++at) {
      if (is_wildcard[at] && text[at] == '*') {
        for (std::size_t skip = 0; skip <= name.size(); ++skip) {
          if (matches_from(at + 1, name.substr(skip))) return true;
        }
        return false;
      }
      if (name.empty()) return false;
      if (is_wildcard[at]) {
        name.remove_prefix(character_length(name));
      } else {
        if (name.front() != text[at]) return false;
        name.remove_prefix(1);
      }
    }
    return name.empty();
  }
};

[[noreturn]] void refuse(std::string_view option, std::string_view pattern, std::string_view why) {
  throw Error(ErrorKind::usage, fmt::format("{}: \"{}\" {}", option, pattern, why))
      .hint(
          "Write names as in SQL: schema.table, in double quotes where they hold capitals or special characters; "
          "* and ? outside of quotes are wildcards.");
}

// Splits at dots outside of quotes.
std::vector<NamePattern> parse_pattern(std::string_view option, std::string_view pattern) {
  std::vector<NamePattern> parts(1);
  bool quoted = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '"') {
      const bool doubled = quoted && i + 1 < pattern.size() && pattern[i + 1] == '"';
      if (doubled) {
        parts.back().add('"', false);
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (quoted) {
      parts.back().add(c, false);
    } else if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back().add(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c, c == '*' || c == '?');
    }
  }
  if (quoted) refuse(option, pattern, "has a quote that is not closed");
  if (std::ranges::any_of(parts, [](const auto& part) { return part.text.empty(); })) {
    refuse(option, pattern, "has an empty name");
  }
  return parts;
}

using Ancestors = std::unordered_map<Oid, const Table*>;

Ancestors index_tables(const std::vector<Table>& tables) {
  Ancestors by_oid;
  for (const auto& table : tables) by_oid.emplace(table.oid, &table);
  return by_oid;
}

class Patterns {
 public:
  static Patterns of_tables(std::string_view option, const std::vector<std::string>& texts) {
    Patterns patterns;
    for (const auto& text : texts) {
      auto parts = parse_pattern(option, text);
      if (parts.size() > 2) refuse(option, text, "has more than a schema and a table");
      if (parts.size() == 1) {
        NamePattern in_public;
        for (const char c : std::string_view("public")) in_public.add(c, false);
        parts.insert(parts.begin(), in_public);
      }
      patterns.all_.push_back(std::move(parts));
    }
    return patterns;
  }
  static Patterns of_schemas(std::string_view option, const std::vector<std::string>& texts) {
    Patterns patterns;
    for (const auto& text : texts) {
      auto parts = parse_pattern(option, text);
      if (parts.size() != 1) refuse(option, text, "is not the name of one schema");
      patterns.all_.push_back(std::move(parts));
    }
    return patterns;
  }

  bool empty() const { return all_.empty(); }
  bool matches(const QualifiedName& name) const {
    return std::ranges::any_of(all_, [&](const auto& pattern) { return matches_one(pattern, name); });
  }
  // The table itself or a partitioned ancestor of it.
  bool matches_tree(const Table& table, const Ancestors& by_oid) const {
    if (matches(table.name)) return true;
    const auto parent = by_oid.find(table.parent_oid);
    return parent != by_oid.end() && matches_tree(*parent->second, by_oid);
  }
  void require_matches(std::string_view option, const std::vector<std::string>& texts,
                       const std::vector<Table>& tables) const {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const bool met = std::ranges::any_of(tables, [&](const Table& t) { return matches_one(all_[i], t.name); });
      if (!met) refuse(option, texts[i], "matches no table");
    }
  }

 private:
  static bool matches_one(const std::vector<NamePattern>& pattern, const QualifiedName& name) {
    return pattern.front().matches(name.schema) && (pattern.size() == 1 || pattern.back().matches(name.name));
  }
  std::vector<std::vector<NamePattern>> all_;
};

}  // namespace

bool matches_any(const std::vector<std::string>& patterns, const QualifiedName& name, std::string_view origin) {
  return Patterns::of_tables(origin, patterns).matches(name);
}

std::vector<Table> apply_filter(std::vector<Table> tables, const TableFilter& filter) {
  const auto include_tables = Patterns::of_tables("--include-table", filter.include_tables);
  const auto exclude_tables = Patterns::of_tables("--exclude-table", filter.exclude_tables);
  const auto exclude_data = Patterns::of_tables("--exclude-data", filter.exclude_data);
  const auto include_schemas = Patterns::of_schemas("--include-schema", filter.include_schemas);
  const auto exclude_schemas = Patterns::of_schemas("--exclude-schema", filter.exclude_schemas);
  include_tables.require_matches("--include-table", filter.include_tables, tables);
  exclude_tables.require_matches("--exclude-table", filter.exclude_tables, tables);
  exclude_data.require_matches("--exclude-data", filter.exclude_data, tables);
  include_schemas.require_matches("--include-schema", filter.include_schemas, tables);
  exclude_schemas.require_matches("--exclude-schema", filter.exclude_schemas, tables);

  const bool include_all = include_tables.empty() && include_schemas.empty();
  const auto by_oid = index_tables(tables);
  std::vector<bool> keep;
  for (const auto& table : tables) {
    const bool included =
        include_all || include_tables.matches_tree(table, by_oid) || include_schemas.matches(table.name);
    keep.push_back(included && !exclude_tables.matches_tree(table, by_oid) && !exclude_schemas.matches(table.name));
  }
  std::vector<Table> kept;
  for (std::size_t i = 0; i < tables.size(); ++i) {
    if (keep[i]) kept.push_back(std::move(tables[i]));
  }
  apply_choices(kept, filter.choices);
  return kept;
}

}  // namespace pgbaton::catalog
