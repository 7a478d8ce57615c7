// rebuild, night after night: what readers see, what a kill leaves, and what adds up.
#include "rebuild.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <regex>

namespace pgbaton::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RebuildTest : public Rebuilds {
 protected:
  // One rebuild under the eyes of a reader; how long it saw nothing.
  Milliseconds gap_of_swap(bool others) {
    std::vector<Session> idle;
    if (others)
      for (int i = 0; i < 5; ++i) idle.emplace_back(shop());
    PollingReader reader(shop(), others);
    const auto version = next_version();
    const auto result = rebuild({"--json"});
    EXPECT_EQ(result.code, 0) << result;
    EXPECT_EQ(served_version(), version);
    const auto looks = reader.looks();
    EXPECT_TRUE(wait_looks(reader, looks + 20));
    reader.stop();
    EXPECT_THAT(reader.wrong(), IsEmpty());
    EXPECT_GT(looks, 20);
    const auto report = nlohmann::json::parse(result.out);
    std::cerr << "swap with " << (others ? "6 sessions of others" : "a reader that connects for each look")
              << ": a reader saw nothing for " << reader.longest_gap().count() << " ms, the databases were locked for "
              << report.at("swap_ms") << " ms\n";
    RecordProperty(others ? "gap_with_sessions_ms" : "gap_without_sessions_ms",
                   static_cast<int>(reader.longest_gap().count()));
    return reader.longest_gap();
  }
  void expect_kills_and_a_lost_source_leave_nothing();
  static bool wait_looks(const PollingReader& reader, long long looks) {
    const auto deadline = std::chrono::steady_clock::now() + Milliseconds(30'000);
    while (reader.looks() < looks && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(Milliseconds(5));
    return reader.looks() >= looks;
  }
};

TEST_F(RebuildTest, S48_AReaderNeverSeesAnEmptyOrMixedDatabase) {
  create_tables();
  Load load(source().conninfo(), 2, move);
  const auto first = rebuild();
  ASSERT_EQ(first.code, 0) << first;
  EXPECT_THAT(first.out + first.err, IsEmpty()) << "cron sends mail for every word";
  const auto nobody = rebuild({"--json"});
  ASSERT_EQ(nobody.code, 0) << nobody;
  std::cerr << "swap with nobody connected: the databases were locked for "
            << nlohmann::json::parse(nobody.out).at("swap_ms") << " ms\n";
  const auto without = gap_of_swap(false);
  const auto with = gap_of_swap(true);
  EXPECT_LT(without.count(), 5000);  // a few milliseconds where the machine has nothing else to do
  EXPECT_LT(with.count(), 5000);
  load.stop();
  EXPECT_THAT(load.errors(), IsEmpty());
  expect_clean(1);
}

// Each run is killed at the next failpoint: it first removes what the one before has left, so never more than one
// generation, and the slot of one, is there beside those that are kept.
TEST_F(RebuildTest, S48_KilledAnywhere) {
  create_tables();
  ASSERT_EQ(rebuild().code, 0);
  auto served = served_version();
  bool swapped = false;
  for (const std::string point : {"rebuild_locked",
                                  "rebuild_swept",
                                  "rebuild_recorded",
                                  "rebuild_database_made",
                                  "rebuild_database_recorded",
                                  "replica_recorded",
                                  "consistent_point_stored",
                                  "slot_recorded",
                                  "before_streaming",
                                  "rebuild_copied",
                                  "rebuild_caught_up",
                                  "rebuild_verifying",
                                  "rebuild_verified",
                                  "source_removed",
                                  "guards_dropped",
                                  "state_deleted",
                                  "rebuild_finished",
                                  "rebuild_sql_done",
                                  "rebuild_carried_over",
                                  "rebuild_built",
                                  "rebuild_before_swap",
                                  "rebuild_renamed",
                                  "rebuild_swapped",
                                  "rebuild_retiring",
                                  "rebuild_pruned"}) {
    SCOPED_TRACE(point);
    if (point == "rebuild_swapped") swapped = true;
    const auto version = next_version();
    const bool verifies = point.find("verif") != std::string::npos;
    const auto result = rebuild(verifies ? Arguments{"--verify"} : Arguments{}, point + "=kill");
    ASSERT_EQ(result.code, 137) << result;
    if (swapped) served = version;
    EXPECT_EQ(served_version(), served);
    EXPECT_EQ(target().number("select count(*) from one", "shop"), 500);
    EXPECT_LE(leftovers(source().conninfo()).size(), 2u);  // slot and publication of one generation
    EXPECT_LE(databases(), 4);                             // live, kept, one to prune, one in the making
    EXPECT_LE(generations("building"), 1);
  }
  // A rollback that is killed has swapped, or it has not.
  ASSERT_EQ(rebuild({"--rollback"}, "rebuild_renamed=kill").code, 137);
  EXPECT_EQ(served_version(), served);
  ASSERT_EQ(rebuild({"--rollback"}, "rebuild_swapped=kill").code, 137);
  EXPECT_LT(served_version(), served);
  // Between the removal of the database and that of its row.
  ASSERT_EQ(rebuild({}, "rebuild_copied=kill").code, 137);
  ASSERT_EQ(rebuild({}, "rebuild_database_dropped=kill").code, 137);
  next_version();
  const auto last = rebuild({"--verify"});
  EXPECT_EQ(last.code, 0) << last;
  expect_served();
  expect_clean(1);
  // `drop` removes what a killed one left, too, and nothing that serves.
  ASSERT_EQ(rebuild({}, "rebuild_caught_up=kill").code, 137);
  // The server notices within moments that the session with the lock is gone.
  std::string listed;
  for (int i = 0; i < 100 && listed.find("interrupted") == std::string::npos; ++i) {
    std::this_thread::sleep_for(Milliseconds(50));
    listed = rebuild({"--list"}).out;
  }
  EXPECT_THAT(listed, HasSubstr("interrupted"));
  EXPECT_EQ(generations("building"), 1);
  const auto dropped = Tool::run(line("drop"));
  EXPECT_EQ(dropped.code, 0) << dropped;
  expect_clean(1);
  expect_served();
}

// 3 in the suite; PGBATON_TEST_REBUILDS=10 for more.
TEST_F(RebuildTest, ManyInARowUnderLoadAndOneRolledBack) {
  const char* given = std::getenv("PGBATON_TEST_REBUILDS");
  const int rounds = given != nullptr ? std::atoi(given) : 3;
  create_tables();
  for (int round = 1; round <= rounds; ++round) {
    SCOPED_TRACE("rebuild " + std::to_string(round));
    next_version();
    {
      Load load(source().conninfo(), 2, move);
      auto tool = frozen("rebuild_copied", {"--verify"});
      EXPECT_TRUE(load.wait_done(load.done() + 50));
      load.stop();  // what was committed is in the generation, and nothing more comes: both sides can be compared
      tool.kill(SIGCONT);
      const auto result = tool.wait();
      ASSERT_EQ(result.code, 0) << result;
    }
    expect_served();
    expect_clean(round == 1 ? 0 : 1);
    if (round != 2) continue;
    const auto newest = served_version();
    const auto back = rebuild({"--rollback"});
    EXPECT_EQ(back.code, 0) << back;
    EXPECT_LT(served_version(), newest);
    const auto again = rebuild({"--rollback"});
    EXPECT_EQ(again.code, 2) << "there is none that is older";
    EXPECT_THAT(again.err, HasSubstr("is a newer one, and --rollback only goes back")) << again;
    const auto list = nlohmann::json::parse(rebuild({"--list", "--json"}).out).at("generations");
    ASSERT_EQ(list.size(), 2u) << list;
    EXPECT_EQ(list[0].at("state"), "kept");
    EXPECT_EQ(list[1].at("state"), "live");
    EXPECT_EQ(list[1].at("database"), "shop");
    EXPECT_GT(list[1].at("bytes"), 1'000'000);
    EXPECT_THAT(list[1].at("position_lsn").get<std::string>(), HasSubstr("/"));
  }
  EXPECT_EQ(target().number("select count(*) from pgbaton.replica"), 0);
  EXPECT_EQ(target().number("select count(*) from pgbaton.event"), 0);
}

TEST_F(RebuildTest, WhatBelongsToTheLiveDatabaseIsCarriedOver) {
  create_tables();
  source().exec("alter database postgres set work_mem = '7MB'; comment on database postgres is 'the source'");
  ASSERT_EQ(rebuild().code, 0);
  EXPECT_EQ(target().scalar("show work_mem", "shop"), "7MB") << "the first one is like the source";
  target().exec("create role keeper; create role reader login; create role other");
  for (const auto* sql :
       {"alter database shop owner to keeper", "alter database shop connection limit 77",
        "comment on database shop is 'it''s ours'", "revoke all on database shop from public",
        "grant connect, temp on database shop to reader with grant option", "alter database shop reset work_mem",
        "alter database shop set search_path = public, \"My Schema\"",
        "alter role reader in database shop set jit = off"})
    target().exec(sql);
  const std::string carried =
      "select d.datname, pg_get_userbyid(datdba), datconnlimit, shobj_description(d.oid, 'pg_database'), "
      "(select string_agg(a::text, ' ' order by a::text) from unnest(datacl) a), (select string_agg(setrole::regrole "
      "|| ' ' || setconfig::text, ' ' order by setrole) from pg_db_role_setting where setdatabase = d.oid) from "
      "pg_database d where datname = 'shop'";
  const auto before = target().query(carried);
  const auto result = rebuild();
  ASSERT_EQ(result.code, 0) << result;
  EXPECT_EQ(target().query(carried), before);
  EXPECT_EQ(target().number("select count(*) from pg_database where datname = 'shop__g1'"), 1);
}

// The stream goes on into the new generation; the writer of the old one ends by itself, and its slot goes.
TEST_F(RebuildTest, FollowGoesOnInTheNewGeneration) {
  create_tables();
  create_marker();
  Tool first(line("rebuild", {"--mode", "follow"}));
  const auto arrives = [&](const std::string& id) {
    return target().wait_until("select count(*) from pg_database where datname = 'shop'", "1", Milliseconds(60'000)) &&
           target().wait_until("select count(*) from marker where id = " + id, "1", Milliseconds(60'000), "shop");
  };
  EXPECT_TRUE(arrives(source().scalar("insert into marker default values returning id"))) << first.err();
  Tool second(line("rebuild", {"--mode", "follow"}));
  const auto ended = first.wait();
  EXPECT_EQ(ended.code, 0) << ended << second.err();
  EXPECT_TRUE(target().wait_until("select count(*) from pgbaton.generation where id = 2 and state = 'live'", "1",
                                  Milliseconds(60'000)))
      << second.err();
  EXPECT_TRUE(arrives(source().scalar("insert into marker default values returning id"))) << second.err();
  EXPECT_TRUE(source().wait_until("select string_agg(slot_name, ' ') from pg_replication_slots", "pgbaton__g2",
                                  Milliseconds(30'000)));
  EXPECT_EQ(source().scalar("select string_agg(pubname, ' ') from pg_publication"), "pgbaton__g2");
  EXPECT_EQ(target().number("select count(*) from pg_namespace where nspname = 'pgbaton'", "shop__g1"), 0);
  stop_follower(second);
  // Any command finds the replica under its name; the next rebuild takes its slot away.
  const auto follow = Tool::run(line("follow", {"--until", "caught-up"}));
  EXPECT_EQ(follow.code, 0) << follow;
  expect_served();
  expect_kills_and_a_lost_source_leave_nothing();
}

// What is left on the source of the generation before is removed by the next run, and told when it stays.
void RebuildTest::expect_kills_and_a_lost_source_leave_nothing() {
  const auto slots = "select string_agg(slot_name, ' ' order by slot_name) from pg_replication_slots";
  auto version = next_version();
  EXPECT_EQ(rebuild({"--mode", "follow"}, "rebuild_retired=kill").code, 137);
  EXPECT_EQ(served_version(), version);
  EXPECT_EQ(source().scalar(slots), "pgbaton__g3") << "that of 2 is gone";
  version = next_version();
  EXPECT_EQ(rebuild({"--mode", "follow"}, "rebuild_retiring=kill").code, 137);
  EXPECT_EQ(served_version(), version);
  EXPECT_EQ(source().scalar(slots), "pgbaton__g3 pgbaton__g4");
  version = next_version();
  {
    auto tool = frozen("rebuild_retiring");
    EXPECT_EQ(source().scalar(slots), "pgbaton__g4") << "that of 3 is gone";
    source().stop(StopMode::immediate);
    tool.kill(SIGCONT);
    const auto result = tool.wait();
    EXPECT_EQ(result.code, 1) << result;
    EXPECT_THAT(result.err,
                HasSubstr("generation 5 serves, but afterwards: of former generations could not be removed"));
    source().start();
  }
  EXPECT_EQ(served_version(), version);
  const auto once = rebuild();
  EXPECT_EQ(once.code, 0) << once;
  expect_clean(1);
}

// Names like those of generations are free to everybody, and to another registry.
TEST_F(RebuildTest, DatabasesOfOthersStay) {
  create_tables();
  target().exec("create database shop__g1");
  target().exec("create table precious (id int)", "shop__g1");
  ASSERT_EQ(rebuild().code, 0);
  ASSERT_EQ(rebuild().code, 0);
  EXPECT_EQ(databases("shop\\_\\_g%"), 2) << "that of somebody, and the kept one";
  target().exec("create database registry");
  const auto other = rebuild({"--maintenance-db", "registry"});
  EXPECT_EQ(other.code, 0) << other;
  EXPECT_EQ(databases("shop\\_\\_g2"), 1) << "kept by the first registry";
  EXPECT_EQ(target().number("select count(*) from pg_class where relname = 'precious'", "shop__g1"), 1);
  // What no waiting ends is told at once; the new generation serves.
  target().exec("create subscription s connection 'dbname=none' publication p with (connect = false, slot_name = none)",
                "shop");
  const auto held = rebuild({"--maintenance-db", "registry", "--keep", "0"});
  EXPECT_EQ(held.code, 1) << held;
  EXPECT_THAT(held.err, AllOf(HasSubstr("it has subscription s"), HasSubstr("serves")));
  const auto kept =
      target().scalar("select datname from pg_database where oid = (select subdbid from pg_subscription)");
  target().exec("drop subscription s", kept);
  EXPECT_EQ(rebuild({"--maintenance-db", "registry", "--keep", "0"}).code, 0);
  EXPECT_EQ(databases(kept), 0);
  // Another replica of the live database would end with it.
  target().exec("create database copy");
  ASSERT_EQ(
      Tool::run({"clone", "--name", "other", "--source", source().conninfo(), "--target", target().conninfo("copy")})
          .code,
      0);
  const auto taken =
      Tool::run({"rebuild", "--name", "mine", "--source", source().conninfo(), "--target", target().conninfo("copy")});
  EXPECT_EQ(taken.code, 3) << taken;
  EXPECT_THAT(taken.err, HasSubstr("pgbaton drop --name other"));
  // What is committed to the live database after the copy would be gone with it.
  for (const auto* command : {"check", "rebuild"}) {
    Arguments itself{command, "--source", shop(), "--target", shop()};
    if (std::string(command) == "check") itself.emplace_back("--rebuild");
    const auto refused = Tool::run(itself);
    EXPECT_EQ(refused.code, 3) << refused;
    EXPECT_THAT(refused.out + refused.err, HasSubstr("source and target are the same database"));
  }
}

// Every failpoint of the rebuild is killed at by one of these tests.
TEST(RebuildFailpoints, AllAreKilledAt) {
  const std::string folder = "../../src/rebuild/";
  const auto tests = read_test_data("../fault/rebuild_test.cpp");
  const std::regex point("PGBATON_FAILPOINT\\(\"([a-z_]+)\"\\)");
  int found = 0;
  for (const auto* file : {"build.cpp", "database.cpp", "rebuild.cpp", "registry.cpp", "swap.cpp"}) {
    const auto text = read_test_data(folder + file);
    for (std::sregex_iterator at(text.begin(), text.end(), point), end; at != end; ++at, ++found) {
      const auto name = (*at)[1].str();
      EXPECT_TRUE(tests.find("\"" + name + "\"") != tests.npos || tests.find("\"" + name + "=kill") != tests.npos)
          << name;
    }
  }
  EXPECT_GE(found, 20);
}

}  // namespace
}  // namespace pgbaton::testing
