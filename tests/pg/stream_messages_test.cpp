// Errors of commands on a copied replica.
#include "pg/messages.hpp"

namespace pgbaton::testing {
namespace {

TEST_F(MessagesTest, OfASlot) {
  const Arguments caught_up{"--until", "caught-up"};
  expect_messages({
      {"second_writer",
       [](Scene& s) {
         s.cloned();
         s.other.emplace(s.arguments("follow", {}));
         ASSERT_TRUE(s.other->wait_for_stderr("streaming from slot"));
       },
       "follow",
       {},
       7,
       {"second_writer", "pid"}},
      {"slot_dropped",
       [](Scene& s) {
         s.cloned();
         s.source("select pg_drop_replication_slot('" + s.slot() + "')");
       },
       "follow",
       caught_up,
       4,
       {"pgbaton_slot_dropped", "source"}},
      {"slot_advanced",
       [](Scene& s) {
         s.cloned();
         s.source("insert into t values (2)");
         s.source("select pg_replication_slot_advance('" + s.slot() + "', pg_current_wal_lsn())");
       },
       "follow",
       caught_up,
       4,
       {"pgbaton_slot_advanced", "LSN"}},
      {"another_cluster",
       [](Scene& s) {
         s.cloned();
         s.source_conninfo = s.target_conninfo;
       },
       "follow",
       {},
       4,
       {"pgbaton_another_cluster", "source"}},
      {"another_database",
       [](Scene& s) {
         s.cloned();
         s.source_conninfo = with(s.source_conninfo, "dbname=postgres");
       },
       "follow",
       {},
       4,
       {"\"postgres\"", "\"another_database\""}},
      // Last: its WAL puts the source ahead of the target, which another_cluster compares.
      {"slot_lost",
       [](Scene& s) {
         s.cloned();
         for (const auto* sql : {"alter system set max_slot_wal_keep_size = '1MB'", "select pg_reload_conf()"})
           s.source_cluster.exec(sql);
         for (int i = 2; i < 5; ++i) {
           s.source("insert into t values (" + std::to_string(i) + ")");
           s.source("select pg_switch_wal()");
         }
         s.source("checkpoint");
         EXPECT_TRUE(s.source_cluster.wait_until(
             "select wal_status from pg_replication_slots where slot_name = '" + s.slot() + "'", "lost"));
         for (const auto* sql : {"alter system reset max_slot_wal_keep_size", "select pg_reload_conf()"})
           s.source_cluster.exec(sql);
       },
       "follow",
       caught_up,
       4,
       {"pgbaton_slot_lost", "is lost", "max_slot_wal_keep_size", "clone --restart"}},
  });
}

TEST_F(MessagesTest, OfChangesThatAreRefused) {
  const Arguments caught_up{"--until", "caught-up"};
  expect_messages({
      {"column_added",
       [](Scene& s) {
         s.cloned();
         s.source("alter table t add column w int; insert into t values (2, 'b', 2, 2)");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "w"}},
      {"target_table_gone",
       [](Scene& s) {
         s.cloned();
         s.target("drop table t");
         s.source("insert into t values (2)");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "target"}},
      {"row_missing",
       [](Scene& s) {
         s.cloned();
         s.target("delete from t");
         s.source("update t set v = 'b'");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "(id)=(1)", "LSN"}},
      {"duplicate",
       [](Scene& s) {
         s.cloned();
         s.target("insert into t values (99, 'x', 5, '0/0')");
         s.source("insert into t values (2, 'y', 5)");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "(u)=(5)", "LSN"}},
      {"check_violated",
       [](Scene& s) {
         s.cloned();
         s.target("alter table t add constraint no_bad check (v <> 'bad')");
         s.source("insert into t values (2, 'bad')");
       },
       "follow",
       caught_up,
       8,
       {"\"public\".\"t\"", "no_bad", "LSN"}},
  });
}

// It streams when the publication goes; what was written since cannot be decoded any more, by no publication. Decoding
// or the look at the catalogs once a second finds it first.
TEST_F(MessagesTest, OfAPublicationThatIsDroppedWhileItStreams) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  auto follower = start("follow");
  ASSERT_TRUE(follower.wait_for_stderr("streaming from slot"));
  source().exec("drop publication pgbaton");
  source().exec("insert into t values (1)");
  expect_message(follower.wait(Milliseconds(60'000)), 4, {"publication", "pgbaton", "source", "clone --restart"});
}

// A file system of 4 MB under one table of the target; where mounting is not allowed, a trigger that says the same.
class SmallDisk {
 public:
  SmallDisk(Cluster& server, const std::string& database) : directory_(server.directory() + "/small") {
    const auto make = "mkdir " + directory_ + " && mount -t tmpfs -o size=4m tmpfs " + directory_ +
                      " 2>&1 && chown postgres " + directory_;
    mounted_ = std::system(make.c_str()) == 0;
    if (mounted_) {
      server.exec("create tablespace small location '" + directory_ + "'");
      server.exec("alter table t set tablespace small", database);
    } else {
      server.exec(
          "create function full_disk() returns trigger language plpgsql as $$ begin raise exception 'could not extend "
          "file: No space left on device' using errcode = 'disk_full'; end $$; create trigger full_disk before insert "
          "on t for each row execute function full_disk(); alter table t enable always trigger full_disk",
          database);
    }
  }
  ~SmallDisk() {
    if (mounted_ && std::system(("umount -l " + directory_).c_str()) != 0) ADD_FAILURE() << directory_ << " is mounted";
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  std::string directory_;
  bool mounted_ = false;
};

TEST_F(MessagesTest, OfAFullDisk) {
  source().exec("create table t (id int primary key, pad text)");
  clone_until_caught_up();
  const SmallDisk disk(target(), "postgres");
  source().exec(
      "alter table t alter pad set storage plain; insert into t select i, (select string_agg(md5(i * j || ''), '') "
      "from "
      "generate_series(1, 100) j) from generate_series(1, 3000) i");
  expect_message(run("follow", {"--until", "caught-up"}), 1,
                 {"No space left on device", "target", "53100", "HINT: Check free disk space"});
  EXPECT_EQ(target().number("select count(*) from t"), 0) << "nothing of it is applied in part";
}

TEST_F(MessagesTest, OfTheEnd) {
  expect_messages({
      {"guard_in_use",
       [](Scene& s) {
         s.cloned();
         s.target("create view shown as select * from t");
       },
       "finish",
       {},
       1,
       {"\"public\".\"t\"", "shown"}},
      {"sequence_limit",
       [](Scene& s) {
         s.source("create sequence small maxvalue 10; select nextval('small')");
         s.cloned();
       },
       "sequences",
       {"--gap", "100"},
       8,
       {"\"public\".\"small\""}},
      {"newer_state",
       [](Scene& s) {
         s.cloned();
         s.target("update pgbaton.meta set schema_version = 9999");
       },
       "follow",
       {},
       2,
       {"9999"}},
      {"drop_without_source",
       [](Scene& s) {
         s.cloned();
         s.source_conninfo = with(s.source_conninfo, "port=1");
       },
       "drop",
       {},
       1,
       {"pgbaton_drop_without_source", "pg_drop_replication_slot"}},
  });
}

TEST_F(MessagesTest, OfAWriterThatIsTakenOver) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  auto follower = start("follow");
  ASSERT_TRUE(follower.wait_for_stderr("streaming from slot"));
  const auto second = run("follow", {"--until", "caught-up", "--take-over"});
  EXPECT_EQ(second.code, 0) << second;
  expect_message(follower.wait(Milliseconds(30'000)), 7, {"replica", "default"});
}

TEST_F(MessagesTest, OfServersThatGoAway) {
  source().exec("create table t (id int primary key)");
  clone_until_caught_up();
  for (auto* server : {&source(), &target()}) {
    auto follower = start("follow", {"--give-up-after", "2s"});
    ASSERT_TRUE(follower.wait_for_stderr("streaming from slot"));
    server->stop();
    expect_message(follower.wait(Milliseconds(60'000)), 5, {server == &source() ? "source" : "target"});
    server->start();
  }
}

}  // namespace
}  // namespace pgbaton::testing
