// Values of documents, for the files that render them; the JSON library itself stands in their .cpp only.
#pragma once
#include <pgbaton/base/lsn.hpp>
#include <pgbaton/state/doubt.hpp>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace pgbaton::app {

using Json = nlohmann::ordered_json;

std::string dump(const Json& document, int indent = 2);
Json lsn_or_null(Lsn lsn);
Json text_or_null(const std::string& text);
Json known_or_null(std::int64_t number);  // negative: not known
Json known_or_null(double number);
Json parsed_or_null(const std::string& text);
Json doubts_document(const std::vector<state::Doubt>& doubts);

}  // namespace pgbaton::app
