#include <fmt/format.h>

#include <algorithm>
#include <pgbaton/base/error.hpp>
#include <pgbaton/base/name.hpp>

namespace pgbaton {
namespace {

// NAMEDATALEN - 1. The server would cut a longer name silently and so mean another object.
constexpr std::size_t kLongestIdentifier = 63;
constexpr std::size_t kLongestReplicaName = 30;

std::string doubled(std::string_view text, char c) {
  std::string out;
  out.reserve(text.size() + 2);
  for (const char each : text) {
    if (each == c) out += c;
    out += each;
  }
  return out;
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_identifier_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_identifier_part(char c) {
  return is_identifier_start(c) || (c >= '0' && c <= '9') || c == '$';
}
char folded(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

class NameParser {
 public:
  explicit NameParser(std::string_view text) : text_(text) {}

  QualifiedName parse() {
    std::string first = part();
    if (!take('.')) return finish({"public", std::move(first)});
    std::string second = part();
    return finish({std::move(first), std::move(second)});
  }

 private:
  std::string part() {
    skip_spaces();
    std::string name = at_ < text_.size() && text_[at_] == '"' ? quoted() : unquoted();
    if (name.empty()) refuse("a name is missing");
    if (name.size() > kLongestIdentifier) refuse("a name is longer than 63 bytes");
    skip_spaces();
    return name;
  }
  std::string quoted() {
    std::string name;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ == text_.size() || text_[at_] != '"') return name;
      }
      if (text_[at_] == '\0') refuse("a name cannot hold a zero byte");
      name += text_[at_];
    }
    refuse("a quote is not closed");
  }
  std::string unquoted() {
    std::string name;
    if (at_ < text_.size() && !is_identifier_start(text_[at_])) refuse("a name must be quoted");
    while (at_ < text_.size() && is_identifier_part(text_[at_])) name += folded(text_[at_++]);
    return name;
  }
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  QualifiedName finish(QualifiedName name) {
    if (at_ != text_.size()) refuse("something follows the name");
    return name;
  }
  [[noreturn]] void refuse(std::string_view why) {
    throw Error(ErrorKind::usage, fmt::format("\"{}\" is not a table name: {}", text_, why))
        .hint("Write schema.table; double quotes keep upper case and special characters: public.\"Order Lines\".");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_replica_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string quote_identifier(std::string_view name) {
  return '"' + doubled(name, '"') + '"';
}

std::string quote_literal(std::string_view text) {
  std::string quoted = '\'' + doubled(text, '\'') + '\'';
  if (text.find('\\') == std::string_view::npos) return quoted;
  return 'E' + doubled(quoted, '\\');
}

std::string as_text(std::string_view expression, bool has_own_text_cast) {
  if (!has_own_text_cast) return std::string(expression) + "::text";
  // format() calls the output function. IS DISTINCT FROM NULL: a row of NULLs is not NULL.
  std::string sql = "CASE WHEN ";
  sql.append(expression).append(" IS DISTINCT FROM NULL THEN pg_catalog.format('%s', ");
  return sql.append(expression).append(") END");
}

QualifiedName parse_qualified_name(std::string_view text) {
  return NameParser(text).parse();
}

ReplicaNames::ReplicaNames(std::string_view given)
    : name(given.empty() ? "default" : given),
      base(name == "default" ? "pgbaton" : "pgbaton_" + name),
      publication_inserts(base + "__ins") {
  // "__" in the base, also from a leading "_", could be mistaken for another replica's derived name: "_ins" would give
  // "pgbaton__ins", the second publication of the default replica.
  if (name.size() > kLongestReplicaName || !std::ranges::all_of(name, is_replica_name_character) ||
      base.find("__") != std::string::npos) {
    throw Error(ErrorKind::usage, fmt::format("\"{}\" is not a replica name", given))
        .hint("Use 1 to 30 of a-z, 0-9 and _, without a leading _ and without __.");
  }
}

}  // namespace pgbaton
