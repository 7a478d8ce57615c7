// clone --dry-run: the plan is what a clone then does, and nothing is changed.
#include "support/pair.hpp"

#include <nlohmann/json.hpp>

namespace pgbaton::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DryRunTest : public PairTest {
 protected:
  nlohmann::json plan(const Arguments& more = {}) {
    Arguments all{"--dry-run", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const auto result = run("clone", all);
    EXPECT_EQ(result.code, 0) << result;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  void create_tables() {
    create_filled("big", 20'000);
    create_filled("middle", 2'000);
    source().exec(
        "create table keyless (a int); insert into keyless values (1);"
        "create unlogged table scratch (id int primary key); analyze");
  }
};

TEST_F(DryRunTest, NamesEverything) {
  create_tables();
  const auto document = plan({"--jobs", "2", "--index-jobs", "1", "--exclude-table", "middle"});
  EXPECT_EQ(document["slot"], "pgbaton");
  EXPECT_EQ(document["publication"], "pgbaton");
  EXPECT_EQ(document["publication_inserts"], "pgbaton__ins");
  EXPECT_THAT(document["left_out"], ElementsAre("\"public\".\"middle\""));
  const auto& tables = document["tables"];
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0]["name"], "big") << "largest first";
  EXPECT_EQ(tables[0]["parts"], 1);
  EXPECT_EQ(tables[0]["guard"], "column");
  EXPECT_EQ(tables[0]["estimated_rows"], 20'000);
  EXPECT_GT(tables[0]["bytes"], 1'000'000);
  EXPECT_EQ(tables[1]["publication"], "pgbaton__ins");
  EXPECT_EQ(tables[1]["guard"], "none");
  EXPECT_EQ(tables[2]["copied"], false);
  EXPECT_EQ(tables[2]["parts"], 0);
  const auto& estimate = document["estimate"];
  EXPECT_GT(estimate["copy_ms"], 0);
  EXPECT_GT(estimate["index_bytes"], 100'000) << "primary key of big";
  EXPECT_GE(estimate["target_wal_bytes"], document["bytes_total"]);
  EXPECT_TRUE(estimate["slot_wal_bytes"].is_number());

  const auto text = run("clone", {"--dry-run"});
  EXPECT_EQ(text.code, 0) << text;
  for (const auto* part : {"slot        pgbaton", "pgbaton__ins", "connections", "time        about",
                           "WAL         about", "parts", "\"public\".\"big\"", "nothing was changed"})
    EXPECT_THAT(text.out, HasSubstr(part));
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(target().conninfo()), IsEmpty());
}

TEST_F(DryRunTest, SlowerWithALimitAndInPartsWhenAsked) {
  create_tables();
  const auto parts = [&](const char* jobs) {
    return plan({"--split-above", "1MB", "--jobs", jobs})["tables"][0]["parts"].get<int>();
  };
  EXPECT_GE(parts("2"), 3);
  EXPECT_EQ(parts("1"), 1);
  const auto free = plan(), limited = plan({"--max-rate", "100kB"});
  EXPECT_GT(limited["estimate"]["copy_ms"].get<double>(), 5 * free["estimate"]["copy_ms"].get<double>());
}

TEST_F(DryRunTest, ConnectionsAreNotMoreThanPlanned) {
  create_tables();
  const Arguments limits{"--jobs", "3", "--index-jobs", "2", "--max-rate", "1MB"};
  const auto planned = plan(limits)["connections"];
  auto clone = start("clone", limits);
  long long on_source = 0, on_target = 0;
  const std::string count = "select count(*) from pg_stat_activity where application_name like 'pgbaton/%'";
  while (clone.running()) {
    on_source = std::max(on_source, source().number(count));
    on_target = std::max(on_target, target().number(count));
  }
  EXPECT_EQ(clone.wait().code, 0);
  EXPECT_LE(on_source, planned["source"].get<long long>());
  EXPECT_LE(on_target, planned["target"].get<long long>());
  EXPECT_GT(on_source, 4) << "the sample has seen the workers";
}

}  // namespace
}  // namespace pgbaton::testing
