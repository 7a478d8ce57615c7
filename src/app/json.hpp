// The JSON library, for the few files that render documents with it: never included by another header.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/state/doubt.hpp>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pgbaton::app {

using Json = nlohmann::ordered_json;

inline std::string dump(const Json& document, int indent = 2) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

inline Json lsn_or_null(Lsn lsn) {
  return lsn ? Json(to_string(lsn)) : Json(nullptr);
}
inline Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}
template <typename Number>
Json known_or_null(Number number) {
  return number < 0 ? Json(nullptr) : Json(number);
}
inline Json parsed_or_null(const std::string& text) {
  Json document = Json::parse(text, nullptr, false);
  return document.is_discarded() ? Json(nullptr) : document;
}

Json doubts_document(const std::vector<state::Doubt>& doubts);  // render_verify_json.cpp

}  // namespace pgbaton::app
