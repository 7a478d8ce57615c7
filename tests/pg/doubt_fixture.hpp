// What tests of doubts (pgbaton/state/doubt.hpp) share.
#pragma once
#include "support/pair.hpp"

namespace pgbaton::testing {

class DoubtTest : public PairTest {
 protected:
  static Arguments drain(const Arguments& more = {}) {
    Arguments all{"--until", "caught-up"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ToolResult follow(const Arguments& more = {}) {
    auto result = run("follow", drain(more));
    EXPECT_EQ(result.code, 0) << result;
    return result;
  }
  // "table kind: reason", by table.
  std::string doubts() {
    return target().scalar(
        "select coalesce(string_agg(table_name || ' ' || kind || ': ' || reason, E'\\n' order by table_name, id), '') "
        "from pgbaton.doubt");
  }
  // What stands between these words in a message.
  static std::string between(const std::string& text, const std::string& before, const std::string& after) {
    const auto at = text.find(before);
    const auto end = at == std::string::npos ? at : text.find(after, at + before.size());
    if (end == std::string::npos) return {};
    return text.substr(at + before.size(), end - at - before.size());
  }
  // What the doubts say is to be run on the target, each statement once.
  void run_remedies() {
    for (const auto& row : target().query("select remedy from pgbaton.doubt where kind = 'differs' and remedy like 'on "
                                          "the target: %' group by 1 order "
                                          "by min(id)")) {
      auto sql = row[0]->substr(std::string("on the target: ").size());
      target().exec(sql.substr(0, sql.find(" (with --drift")));
    }
  }
  static std::string statements(const ToolResult& result) {
    return between(result.err, "On the target run: ", "then run the same command again");
  }
};

}  // namespace pgbaton::testing
