#include "text_format.hpp"

#include <charconv>
#include <cstdint>

namespace pgbaton::apply {

void ArrayLiteral::separate() {
  if (text_.size() > 1) text_ += ',';
}

void ArrayLiteral::add(const wire::Value& value, bool bare) {
  if (value.kind != wire::ValueKind::null) return add(value.data, bare);
  separate();
  text_ += "NULL";
}

void ArrayLiteral::add(std::string_view text, bool bare) {
  separate();
  if (bare) {
    text_ += text;
    return;
  }
  text_ += '"';
  for (std::size_t at = 0;;) {
    const std::size_t special = text.find_first_of("\"\\", at);
    text_ += text.substr(at, special - at);
    if (special == std::string_view::npos) break;
    text_ += '\\';
    text_ += text[special];
    at = special + 1;
  }
  text_ += '"';
}

std::string_view ArrayLiteral::finish() {
  text_ += '}';
  return text_;
}

void ArrayLiteral::clear() {
  text_ = "{";
}

namespace {

char copy_escape(char special) {
  switch (special) {
    case '\t':
      return 't';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
  }
  return '\\';
}

}  // namespace

void append_copy_field(std::string& line, const wire::Value& value) {
  if (value.kind == wire::ValueKind::null) {
    line += "\\N";
    return;
  }
  for (std::size_t at = 0;;) {
    const std::size_t special = value.data.find_first_of("\\\t\n\r", at);
    line += value.data.substr(at, special - at);
    if (special == std::string_view::npos) return;
    line += '\\';
    line += copy_escape(value.data[special]);
    at = special + 1;
  }
}

bool integer_text_less(std::string_view a, std::string_view b) {
  std::int64_t left = 0, right = 0;
  std::from_chars(a.data(), a.data() + a.size(), left);
  std::from_chars(b.data(), b.data() + b.size(), right);
  return left < right;
}

}  // namespace pgbaton::apply
