// Just enough of PostgreSQL's lexical rules to know where a condition ends: literals, quoted names, comments, brackets.
// What is right inside of that is the server's to say.
#include <fmt/format.h>
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/choice.hpp>

#include <algorithm>
#include <cctype>

namespace pgbaton::catalog {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Why the text cannot stand alone in brackets; "" when it can.
  std::string_view complaint() {
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (looking_at("--")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (looking_at("/*")) {
        if (!skip_comment()) return "a comment is not closed";
      } else if (c == '\'' || c == '"') {
        if (!skip_quoted(c, c == '\'' && is_escape_string())) return "a quote is not closed";
      } else if (c == '$' && starts_dollar_quote()) {
        if (!skip_dollar_quoted()) return "a dollar quote is not closed";
      } else {
        if (c == ';') return "a semicolon ends it early";
        depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
        if (depth < 0) return "a bracket is closed that was not opened";
        ++at_;
        has_content_ = has_content_ || std::isspace(static_cast<unsigned char>(c)) == 0;
      }
    }
    if (depth > 0) return "a bracket is not closed";
    return has_content_ ? "" : "it says nothing";
  }

 private:
  bool looking_at(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  // e'…' takes backslashes; type'…' and the like do not.
  bool is_escape_string() const {
    if (at_ == 0 || (text_[at_ - 1] != 'e' && text_[at_ - 1] != 'E')) return false;
    return at_ == 1 || !is_word(text_[at_ - 2]);
  }
  // A doubled quote is one that closes and one that opens again.
  bool skip_quoted(char quote, bool escapes) {
    has_content_ = true;
    for (++at_; at_ < text_.size(); ++at_) {
      if (escapes && text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == quote) {
        ++at_;
        // e'a''\'b' goes on as what it began as.
        if (!escapes || at_ >= text_.size() || text_[at_] != quote) return true;
      }
    }
    return false;
  }
  bool skip_comment() {
    int depth = 0;
    while (at_ < text_.size()) {
      const int step = looking_at("/*") ? 1 : looking_at("*/") ? -1 : 0;
      depth += step;
      at_ += step == 0 ? 1 : 2;
      if (depth == 0) return true;
    }
    return false;
  }
  // $$ or $tag$, not the $ inside of a name, and no parameter.
  bool starts_dollar_quote() const {
    if (at_ > 0 && is_word(text_[at_ - 1])) return false;
    const auto end = tag_end();
    return end != text_.npos && (end == at_ + 1 || std::isdigit(static_cast<unsigned char>(text_[at_ + 1])) == 0);
  }
  std::size_t tag_end() const {
    auto end = at_ + 1;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return end < text_.size() && text_[end] == '$' ? end : text_.npos;
  }
  bool skip_dollar_quoted() {
    has_content_ = true;
    const auto tag = text_.substr(at_, tag_end() + 1 - at_);
    const auto end = text_.find(tag, at_ + tag.size());
    if (end == text_.npos) return false;
    at_ = end + tag.size();
    return true;
  }

  const std::string_view text_;
  std::size_t at_ = 0;
  bool has_content_ = false;
};

}  // namespace

void require_condition(std::string_view text, std::string_view origin) {
  if (const auto why = Scanner(text).complaint(); !why.empty())
    throw Error(ErrorKind::usage, fmt::format("{} is no condition by itself: {}", origin, why))
        .hint("Give what stands behind WHERE in SQL, such as: region = 'eu' AND id > 100.");
}

std::string bracketed(std::string_view condition) {
  return fmt::format("({}{})", condition, condition.find("--") == condition.npos ? "" : "\n");
}

}  // namespace pgbaton::catalog
