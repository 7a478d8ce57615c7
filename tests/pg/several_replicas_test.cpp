// More than one replica (S55): two from one source, and a cascade, where a target is itself a source.
#include <thread>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SeveralReplicasTest : public PairTest {
 protected:
  void SetUp() override {
    PairTest::SetUp();
    source().exec(
        "create table t (id int primary key, v text); insert into t select i, 'one' from generate_series(1, 500) i;"
        "create table log (line text); insert into log values ('first')");
  }
  static Arguments between(const std::string& command, const Cluster& from, const Cluster& to, const std::string& name,
                           const Arguments& more = {}) {
    Arguments all{command, "--source", from.conninfo(), "--target", to.conninfo(), "--name", name};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static void succeed(const Arguments& arguments) {
    const auto result = Tool::run(arguments, Milliseconds(60'000));
    ASSERT_EQ(result.code, 0) << arguments[0] << ": " << result;
  }
  // Names of slots are the cluster's: the one that hinders is another database's, and not to be dropped.
  void slot_of_another_database() {
    source().exec("create database neighbour");
    const auto check = Tool::run({"check", "--name", "one", "--source", source().conninfo("neighbour")});
    EXPECT_EQ(check.code, 3) << check;
    EXPECT_THAT(check.out,
                ::testing::AllOf(::testing::HasSubstr("belongs to database \"postgres\""),
                                 ::testing::HasSubstr("Choose another --name. Only if nothing uses it any more: ")))
        << check;
    const auto same = Tool::run({"check", "--name", "one", "--source", source().conninfo()});
    EXPECT_EQ(same.code, 3) << same;
    EXPECT_THAT(same.out, ::testing::HasSubstr("a slot of this name exists and the target knows nothing of it"));
  }
  static const Arguments& bounded() {
    static const Arguments more{"--until", "caught-up"};
    return more;
  }
};

TEST_F(SeveralReplicasTest, S55_TwoTargetsOfOneSource) {
  const Cluster second;
  Load load(source().conninfo(), 3,
            "insert into log values ('live'); update t set v = v || 'x' where id = 1 + (random() * 499)::int");
  succeed(between("clone", source(), target(), "one", bounded()));
  succeed(between("clone", source(), second, "two", bounded()));
  slot_of_another_database();
  Tool to_first(between("follow", source(), target(), "one")), to_second(between("follow", source(), second, "two"));
  ASSERT_TRUE(load.wait_done(load.done() + 200));
  load.stop();
  for (auto* follower : {&to_first, &to_second})
    for (int i = 0; i < 600 && follower->err().find("streaming from slot") == std::string::npos; ++i)
      std::this_thread::sleep_for(Milliseconds(50));
  stop_follower(to_first);
  stop_follower(to_second);
  succeed(between("follow", source(), target(), "one", bounded()));
  succeed(between("follow", source(), second, "two", bounded()));
  expect_equal();
  EXPECT_THAT(differences(source().conninfo(), second.conninfo()), IsEmpty());

  succeed(between("drop", source(), target(), "one"));
  EXPECT_THAT(leftovers(source().conninfo()),
              ElementsAre("publication pgbaton_two", "publication pgbaton_two__ins", "slot pgbaton_two"))
      << "the other replica keeps what is its own";
  source().exec("insert into log values ('after the drop of the first')");
  succeed(between("follow", source(), second, "two", bounded()));
  EXPECT_THAT(differences(source().conninfo(), second.conninfo()), IsEmpty());
}

TEST_F(SeveralReplicasTest, S55_SameNameToASecondTargetIsRefused) {
  const Cluster second;
  succeed(between("clone", source(), target(), "one", bounded()));
  const auto result = Tool::run(between("clone", source(), second, "one", bounded()));
  EXPECT_EQ(result.code, 3) << result;
  EXPECT_THAT(target_leftovers(second.conninfo()), IsEmpty());
  source().exec("insert into log values ('live')");
  succeed(between("follow", source(), target(), "one", bounded()));
  expect_equal();
}

TEST_F(SeveralReplicasTest, S55_CascadeCarriesNoGuardsAndNoState) {
  const Cluster last;
  Cluster& middle = target();
  succeed(between("clone", source(), middle, "first", bounded()));
  source().exec("update t set v = 'before the second hop' where id <= 10");
  succeed(between("follow", source(), middle, "first", bounded()));
  succeed(between("clone", middle, last, "second", bounded()));
  EXPECT_EQ(last.scalar("select string_agg(name, ',') from pgbaton.replica"), "second") << "its own state alone";

  Tool hop1(between("follow", source(), middle, "first")), hop2(between("follow", middle, last, "second"));
  source().exec(
      "update t set v = 'live' where id between 100 and 200; insert into t values (1000, 'new'); "
      "delete from t where id = 50; insert into log values ('live')");
  EXPECT_TRUE(last.wait_until("select count(*) from t where id = 1000", "1")) << hop1.err() << hop2.err();
  stop_follower(hop1);

  // The guard column of the first hop vanishes from the middle while the second hop streams.
  succeed(between("finish", source(), middle, "first"));
  EXPECT_EQ(
      middle.scalar("select string_agg(attname, ',') from pg_attribute where attrelid = 't'::regclass and attnum > 0 "
                    "and not attisdropped"),
      "id,v");
  middle.exec("insert into t values (1001, 'written on the middle'); update t set v = 'again' where id = 1");
  EXPECT_TRUE(last.wait_until("select count(*) from t where id = 1001", "1")) << hop2.err();
  stop_follower(hop2);
  succeed(between("follow", middle, last, "second", bounded()));
  succeed(between("finish", middle, last, "second"));
  EXPECT_THAT(differences(middle.conninfo(), last.conninfo()), IsEmpty());
  EXPECT_THAT(target_leftovers(last.conninfo()), IsEmpty());
  EXPECT_THAT(leftovers(middle.conninfo()), IsEmpty());
  EXPECT_THAT(leftovers(source().conninfo()), IsEmpty());
}

// The other order: the second hop exists first, then the middle becomes a target and gets guard columns.
TEST_F(SeveralReplicasTest, S55_MiddleBecomesATargetLater) {
  const Cluster last;
  Cluster& middle = target();
  middle.exec("create table t (id int primary key, v text); create table log (line text)");
  succeed(between("clone", middle, last, "second", bounded()));
  Tool hop2(between("follow", middle, last, "second"));
  succeed(between("clone", source(), middle, "first", {"--until", "caught-up", "--schema", "none"}));
  source().exec("insert into t values (1000, 'new'); update t set v = 'live' where id <= 20");
  succeed(between("follow", source(), middle, "first", bounded()));
  EXPECT_TRUE(last.wait_until("select count(*) from t where id = 1000", "1")) << hop2.err();
  stop_follower(hop2);
  succeed(between("follow", middle, last, "second", bounded()));
  EXPECT_THAT(differences(source().conninfo(), last.conninfo()), IsEmpty());
}

}  // namespace
}  // namespace pgbaton::testing
