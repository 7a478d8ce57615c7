// Values in the two text forms that carry many rows at once: array literals as parameters of unnest(), and lines of
// COPY. Pure functions of bytes.
//
//   array:  '{' item (',' item)* '}'      item: NULL | '"' (byte | '\"' | '\\')* '"' | digits
//   copy:   field ('\t' field)* '\n'      field: '\N' | byte*, with \\ \t \n \r escaped
#pragma once
#include <pgbaton/wire/value.hpp>

#include <string>
#include <string_view>

namespace pgbaton::apply {

class ArrayLiteral {
 public:
  // `bare`: the text needs no quotes (integers, LSNs).
  void add(const wire::Value& value, bool bare);
  void add(std::string_view text, bool bare);
  // Closes the literal; add() is over until clear().
  std::string_view finish();
  void clear();
  std::size_t bytes() const { return text_.size(); }

 private:
  void separate();
  std::string text_ = "{";
};

void append_copy_field(std::string& line, const wire::Value& value);

// "12" < "113", "-5" < "3"; both as int2, int4 or int8 print themselves.
bool integer_text_less(std::string_view a, std::string_view b);

}  // namespace pgbaton::apply
