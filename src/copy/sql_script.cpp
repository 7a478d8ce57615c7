#include "sql_script.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <pgbaton/base/error.hpp>

namespace pgbaton::copy {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80) != 0;
}

// Walks over SQL; what is inside quotes or comments is passed as one token.
class Lexer {
 public:
  enum class Kind { end, comment, quoted, semicolon, other };
  struct Token {
    Kind kind;
    std::size_t begin, end;
  };

  explicit Lexer(std::string_view text, std::size_t at = 0) : text_(text), at_(at) {}

  Token next() {
    const std::size_t begin = at_;
    if (begin >= text_.size()) return {Kind::end, begin, begin};
    const char c = text_[begin];
    if (starts("--")) return token(Kind::comment, begin, line_end(begin));
    if (starts("/*")) return token(Kind::comment, begin, block_comment_end(begin));
    if (c == '"') return token(Kind::quoted, begin, quote_end(begin, '"', false));
    if (c == '\'') return token(Kind::quoted, begin, quote_end(begin, '\'', escapes_before(begin)));
    if (c == '$')
      if (auto end = dollar_end(begin)) return token(Kind::quoted, begin, *end);
    if (c == ';') return token(Kind::semicolon, begin, begin + 1);
    // A word is one token, so that a dollar or an E inside it starts nothing.
    std::size_t end = begin + 1;
    if (is_word(c))
      while (end < text_.size() && (is_word(text_[end]) || text_[end] == '$')) ++end;
    return token(Kind::other, begin, end);
  }

 private:
  bool starts(std::string_view with) const { return text_.substr(at_, with.size()) == with; }
  Token token(Kind kind, std::size_t begin, std::size_t end) {
    at_ = end;
    return {kind, begin, end};
  }
  std::size_t line_end(std::size_t from) const { return std::min(text_.find('\n', from), text_.size()); }
  // E'…' has backslash escapes; the E must be a word of its own.
  bool escapes_before(std::size_t quote) const {
    if (quote == 0 || (text_[quote - 1] != 'E' && text_[quote - 1] != 'e')) return false;
    return quote == 1 || !is_word(text_[quote - 2]);
  }
  std::size_t quote_end(std::size_t begin, char quote, bool escapes) const {
    for (std::size_t i = begin + 1; i < text_.size(); ++i) {
      if (escapes && text_[i] == '\\') {
        ++i;
      } else if (text_[i] == quote) {
        if (i + 1 < text_.size() && text_[i + 1] == quote)
          ++i;
        else
          return i + 1;
      }
    }
    return text_.size();
  }
  std::size_t block_comment_end(std::size_t begin) const {
    int depth = 0;
    for (std::size_t i = begin; i + 1 < text_.size(); ++i) {
      const auto two = text_.substr(i, 2);
      if (two == "/*") ++depth, ++i;
      if (two == "*/") --depth, ++i;
      if (depth == 0) return i + 1;
    }
    return text_.size();
  }
  // The end of $tag$ … $tag$, or nullopt when no such quote starts here ($1 is a parameter).
  std::optional<std::size_t> dollar_end(std::size_t begin) const {
    std::size_t i = begin + 1;
    while (i < text_.size() && is_word(text_[i])) ++i;
    const bool digit_first = i > begin + 1 && text_[begin + 1] >= '0' && text_[begin + 1] <= '9';
    if (i >= text_.size() || text_[i] != '$' || digit_first) return std::nullopt;
    const auto tag = text_.substr(begin, i + 1 - begin);
    const auto close = text_.find(tag, i + 1);
    return close == text_.npos ? text_.size() : close + tag.size();
  }

  std::string_view text_;
  std::size_t at_;
};

// One header comment block, and where it begins and ends in the script.
struct Header {
  TocEntry entry;
  std::size_t begin = 0, end = 0;
};

[[noreturn]] void throw_form(std::string_view line) {
  throw Error(ErrorKind::failed, fmt::format("the script of pg_restore has a line of an unknown form: {}", line))
      .hint("Report this with the version of pg_restore; --pg-dump names another one.");
}

// Takes `word` off the front of `text`; false when it is not there.
bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

template <typename Number>
bool take_number(std::string_view& text, Number& value) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool parse_identity(std::string_view line, TocEntry& entry) {
  if (!take(line, "-- TOC entry ")) return false;
  const auto whole = line;
  if (!take_number(line, entry.id) || !take(line, " (class ") || !take_number(line, entry.class_oid) ||
      !take(line, " OID ") || !take_number(line, entry.catalog_oid) || line != ")")
    throw_form(whole);
  return true;
}

bool parse_dependencies(std::string_view line, TocEntry& entry) {
  if (!take(line, "-- Dependencies:")) return false;
  int id = 0;
  while (take(line, " ") && take_number(line, id)) entry.dependencies.push_back(id);
  return true;
}

// "-- Name: TAG; Type: TYPE; Schema: SCHEMA; Owner: OWNER". A name may hold "; ", so TYPE and SCHEMA are looked for
// from the end: owner and schema names with "; " in them give a wrong schema for people to read, nothing else.
bool parse_name(std::string_view line, TocEntry& entry) {
  if (!take(line, "-- Name: ")) return false;
  constexpr std::string_view kType = "; Type: ", kSchema = "; Schema: ", kOwner = "; Owner: ";
  const auto owner = line.rfind(kOwner), schema = line.rfind(kSchema), type = line.rfind(kType, schema);
  if (owner == line.npos || schema == line.npos || type == line.npos || owner < schema) throw_form(line);
  entry.tag = line.substr(0, type);
  entry.description = line.substr(type + kType.size(), schema - type - kType.size());
  entry.schema = line.substr(schema + kSchema.size(), owner - schema - kSchema.size());
  return true;
}

// The entry's settings that pg_restore printed before it, as they are now in force.
struct Settings {
  std::array<std::string, 2> lines;

  void read(std::string_view sql) {
    constexpr std::array<std::string_view, 2> kNames{"SET default_tablespace = ", "SET default_table_access_method = "};
    Lexer lexer(sql);
    std::size_t statement = 0;
    for (auto token = lexer.next(); token.kind != Lexer::Kind::end; token = lexer.next()) {
      if (token.kind == Lexer::Kind::comment &&
          sql.substr(statement, token.begin - statement).find_first_not_of(" \n") == sql.npos)
        statement = token.end;
      if (token.kind != Lexer::Kind::semicolon) continue;
      auto text = sql.substr(statement, token.end - statement);
      text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
      for (std::size_t i = 0; i < kNames.size(); ++i)
        if (text.starts_with(kNames[i])) lines[i] = text;
      statement = token.end;
    }
  }
  std::string text() const {
    std::string result;
    for (const auto& line : lines)
      if (!line.empty()) result += line + "\n";
    return result;
  }
};

// Every header of the script in order.
std::vector<Header> find_headers(std::string_view script) {
  std::vector<Header> headers;
  bool inside = false;  // a header that has no name yet
  Lexer lexer(script);
  for (auto token = lexer.next(); token.kind != Lexer::Kind::end; token = lexer.next()) {
    if (token.kind != Lexer::Kind::comment) continue;
    const bool at_line_start = token.begin == 0 || script[token.begin - 1] == '\n';
    const auto line = script.substr(token.begin, token.end - token.begin);
    TocEntry entry;
    if (at_line_start && parse_identity(line, entry)) {
      if (inside) throw_form(line);
      headers.push_back({std::move(entry), token.begin, token.end});
      inside = true;
    } else if (inside && parse_dependencies(line, headers.back().entry)) {
      // read
    } else if (inside && parse_name(line, headers.back().entry)) {
      inside = false;
      headers.back().end = token.end;
    } else if (!headers.empty() && !inside && token.begin == headers.back().end + 1) {
      headers.back().end = token.end;  // the rest of the same block
    }
  }
  if (inside) throw_form(script.substr(headers.back().begin, 100));
  return headers;
}

// Statements only: the comment lines of pg_restore's trailer and backslash commands (\restrict) are no SQL of ours.
std::string_view cut_trailer(std::string_view sql) {
  Lexer lexer(sql);
  for (auto token = lexer.next(); token.kind != Lexer::Kind::end; token = lexer.next()) {
    const bool line_start = token.begin == 0 || sql[token.begin - 1] == '\n';
    if (line_start && token.kind == Lexer::Kind::other && sql[token.begin] == '\\') return sql.substr(0, token.begin);
  }
  return sql;
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

}  // namespace

std::vector<TocEntry> split_script(std::string_view script, Section section) {
  auto headers = find_headers(script);
  std::vector<TocEntry> entries;
  Settings settings;
  settings.read(script.substr(0, headers.empty() ? 0 : headers.front().begin));
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto end = i + 1 < headers.size() ? headers[i + 1].begin : script.size();
    const auto sql = cut_trailer(script.substr(headers[i].end, end - headers[i].end));
    auto& entry = entries.emplace_back(std::move(headers[i].entry));
    entry.section = section;
    entry.sql = settings.text() + std::string(trim(sql));
    settings.read(sql);
  }
  return entries;
}

std::string_view first_statement(std::string_view sql) {
  Lexer lexer(sql);
  std::size_t begin = 0;
  for (auto token = lexer.next(); token.kind != Lexer::Kind::end; token = lexer.next()) {
    if (token.kind == Lexer::Kind::comment && trim(sql.substr(begin, token.begin - begin)).empty()) begin = token.end;
    if (token.kind != Lexer::Kind::semicolon) continue;
    const auto statement = trim(sql.substr(begin, token.begin - begin));
    if (!statement.starts_with("SET ")) return statement;
    begin = token.end;
  }
  return trim(sql.substr(begin));
}

}  // namespace pgbaton::copy
