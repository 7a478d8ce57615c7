// `check` asks every major only what it knows, as a source and as a target.
#include <nlohmann/json.hpp>
#include <set>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::Contains;
using Ids = std::set<std::string>;

Ids check(Cluster& from, Cluster& to) {
  const auto result =
      Tool::run({"check", "--json", "--schema", "none", "--source", from.conninfo(), "--target", to.conninfo()});
  EXPECT_EQ(result.code, 0) << result;
  Ids found;
  const auto document = nlohmann::json::parse(result.out, nullptr, false);
  if (document.is_discarded()) return found;
  for (const auto& finding : document.value("findings", nlohmann::json::array()))
    found.insert(finding.at("id").get<std::string>());
  return found;
}

class CheckMajorTest : public ::testing::TestWithParam<int> {};

TEST_P(CheckMajorTest, AsSourceAndAsTarget) {
  ASSERT_TRUE(Cluster::available(GetParam())) << "scripts/postgres " << GetParam() << " fetches it";
  ClusterOptions options{.major = GetParam()};
  if (GetParam() >= 18) options.settings.emplace_back("idle_replication_slot_timeout", "1h");
  Cluster one(options), other;
  for (auto* cluster : {&one, &other}) cluster->exec(read_test_data("check/everything.sql"));
  const auto found = check(one, other);
  EXPECT_THAT(found, ::testing::IsSupersetOf({"table.no_identity", "table.unlogged", "table.partitioned", "table.guard",
                                              "source.wal_keep", "source.estimate"}));
  EXPECT_EQ(found.contains("source.idle_slot_timeout"), GetParam() >= 18);
  EXPECT_THAT(check(other, one), Contains("target.replica_role"));
}

// A full schema asks for more: pg_dump is the only thing that is missing for majors above Debian's.
TEST_P(CheckMajorTest, WithoutATarget) {
  ASSERT_TRUE(Cluster::available(GetParam())) << "scripts/postgres " << GetParam() << " fetches it";
  Cluster one({.major = GetParam()}), other;
  one.exec(read_test_data("check/everything.sql"));
  const auto alone = Tool::run({"check", "--source", one.conninfo(), "--schema", "none"});
  EXPECT_EQ(alone.code, 0) << alone;
  const auto full = Tool::run({"check", "--json", "--source", one.conninfo(), "--target", other.conninfo()});
  Ids blockers;
  const auto document = nlohmann::json::parse(full.out, nullptr, false);
  ASSERT_TRUE(document.is_object()) << full;
  for (const auto& finding : document.value("findings", nlohmann::json::array()))
    if (finding.at("severity") == "blocker") blockers.insert(finding.at("id").get<std::string>());
  EXPECT_EQ(blockers, GetParam() <= 15 ? Ids{} : Ids{"local.pg_dump"}) << full;
}

// Who may give objects to whom is asked in another way from 16 on.
TEST_P(CheckMajorTest, AsTargetOfAnOrdinaryRole) {
  ASSERT_TRUE(Cluster::available(GetParam())) << "scripts/postgres " << GetParam() << " fetches it";
  Cluster from, one({.major = GetParam()});
  from.exec("create table t (id int primary key)");
  one.exec(
      "create role ordinary login; grant create on database postgres to ordinary; grant create on schema public to "
      "ordinary");
  const Arguments arguments{"check",         "--json",   "--source",
                            from.conninfo(), "--target", one.conninfo("postgres", "ordinary")};
  const auto refused = Tool::run(arguments);
  EXPECT_EQ(refused.code, 3) << refused;
  EXPECT_THAT(refused.out, ::testing::HasSubstr("target.role_membership"));
  one.exec("grant postgres to ordinary");
  const auto accepted = Tool::run(arguments);
  EXPECT_EQ(accepted.code, 0) << accepted;
}

INSTANTIATE_TEST_SUITE_P(Majors, CheckMajorTest, ::testing::Values(12, 14, 16, 17, 18));

}  // namespace
}  // namespace pgbaton::testing
