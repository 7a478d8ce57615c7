// What the tests of `check` share: its document, and the ids of one severity in it.
#pragma once
#include <nlohmann/json.hpp>
#include <set>

#include "support/pair.hpp"

namespace pgbaton::testing {

using Json = nlohmann::ordered_json;
using Ids = std::set<std::string>;
inline constexpr int kAnyCode = -1;  // 0 or 3

class CheckTest : public PairTest {
 protected:
  ClusterOptions source_options() const override { return options_of_both(); }
  ClusterOptions target_options() const override { return options_of_both(); }
  static ClusterOptions options_of_both() {
    return {.settings = {{"allow_in_place_tablespaces", "on"}, {"autovacuum", "off"}}};
  }
  Json findings(const std::string& from, const std::string& to, const Arguments& more, int expected_code) {
    Arguments all{"check", "--json", "--source", from};
    if (!to.empty()) all.insert(all.end(), {"--target", to});
    all.insert(all.end(), more.begin(), more.end());
    const auto result = Tool::run(all);
    if (expected_code == kAnyCode)
      EXPECT_TRUE(result.code == 0 || result.code == 3) << result;
    else
      EXPECT_EQ(result.code, expected_code) << result;
    auto document = Json::parse(result.out);
    for (const auto& finding : document.value("findings", Json::array())) {
      EXPECT_TRUE(finding.at("severity") == "note" || finding.at("remedy") != "") << finding;
      EXPECT_NE(finding.at("object"), "") << finding;
    }
    return document;
  }
};

inline Ids ids(const Json& document, const std::string& severity) {
  Ids found;
  for (const auto& finding : document.value("findings", Json::array()))
    if (finding.at("severity") == severity) found.insert(finding.at("id").get<std::string>());
  return found;
}

}  // namespace pgbaton::testing
