// Schema pgbaton: installing and migrating it.
#include "store_fixture.hpp"

#include <pgbaton/embedded_sql.hpp>

#include <thread>

namespace pgbaton::state {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StateSchemaTest : public StoreFixture {};

TEST_F(StateSchemaTest, InstallIsRepeatable) {
  EXPECT_FALSE(store_.installed());
  EXPECT_EQ(store_.load_replica("r"), std::nullopt);
  EXPECT_THAT(store_.replica_names(), IsEmpty());
  store_.install();
  store_.install();
  EXPECT_TRUE(store_.installed());
  EXPECT_EQ(target_.number("select count(*) from pgbaton.meta"), 1);
  EXPECT_EQ(
      target_.number("select count(*) from pg_class where relnamespace = 'pgbaton'::regnamespace and relkind = 'r' "
                     "and obj_description(oid) is null"),
      0);
  EXPECT_EQ(target_.scalar("select has_schema_privilege('pg_monitor', 'pgbaton', 'usage')"), "f");
}

TEST_F(StateSchemaTest, TwoInstallAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      try {
        auto connection = pg::open_control(endpoint(), "install");
        Store(*connection).install();
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(target_.number("select count(*) from pgbaton.meta"), 1);
}

TEST_F(StateSchemaTest, NewerSchemaIsRefused) {
  store_.install();
  target_.exec("update pgbaton.meta set schema_version = schema_version + 1");
  expect_error(ErrorKind::usage, "version", [&] { store_.install(); });
  expect_error(ErrorKind::usage, "version", [&] { store_.installed(); });
}

// A replica begun by version 1: whoever only reads leaves the schema as it is, install() brings it up to date.
TEST_F(StateSchemaTest, OlderSchemaIsMigrated) {
  target_.exec("begin;" + std::string(sql::target_schema) +
               "insert into pgbaton.replica (name, generation, source_system_id, source_timeline, source_database, "
               "slot, publication, phase) values ('r', 'g', 1, 1, 'app', 'pgbaton_r', 'pgbaton_r', 'ready');"
               "insert into pgbaton.progress (replica, generation, applier_number, applier_count, epoch, applied_lsn) "
               "values ('r', 'g', 0, 1, 0, '0/77'); commit");
  const auto before = store_.load_replica("r");
  ASSERT_TRUE(before);
  EXPECT_THAT(before->publication_state, IsEmpty());
  EXPECT_EQ(store_.load_progress(*before).applied_lsn, Lsn{0x77});
  EXPECT_EQ(target_.number("select schema_version from pgbaton.meta"), 1);
  store_.install();
  EXPECT_EQ(target_.number("select schema_version from pgbaton.meta"), 10);
  const auto after = store_.load_replica("r");
  ASSERT_TRUE(after);
  EXPECT_EQ(after->phase, Phase::ready);
  EXPECT_THAT(after->readiness.ready_at, IsEmpty()) << "not known";
  EXPECT_EQ(before->readiness.goal_lsn, after->readiness.goal_lsn);
  EXPECT_FALSE(before->history_break || after->history_break);
  HistoryBreak found;
  found.message = "it's \"back\"";
  found.timeline = 1;
  found.flush_lsn = Lsn{0x70};
  found.slot_lsn = Lsn{0x60};
  store_.store_history_break(*after, found);
  found.slot_lsn = Lsn{0x50};
  store_.store_history_break(*after, found);
  const auto broken = store_.load_replica("r")->history_break;
  ASSERT_TRUE(broken);
  EXPECT_EQ(broken->message, found.message);
  EXPECT_EQ(broken->slot_lsn, Lsn{0x60}) << "the larger one";
  store_.store_history_break(*after, std::nullopt);
  EXPECT_FALSE(store_.load_replica("r")->history_break);
  store_.store_publication_state(*after, R"({"publications": []})");
  store_.report_positions(*after, Lsn{0x90}, Lsn{0x80}, Lsn{0x60});
  store_.report_positions(*after, Lsn{0x90}, Lsn{0x80}, Lsn{0x50});
  EXPECT_EQ(store_.load_progress(*after).slot_restart_lsn, Lsn{0x60}) << "it only grows";
  store_.store_source_timeline(*after, 2);
  EXPECT_EQ(store_.load_progress(*after).slot_restart_lsn, Lsn{}) << "another timeline's slot may lag behind";
  EXPECT_EQ(store_.load_replica("r")->source_timeline, 2u);
  EXPECT_EQ(store_.load_replica("r")->publication_state, R"({"publications": []})");
}

// Tables recorded by version 1: read as they are, and with shapes and counts once the schema is up to date.
TEST_F(StateSchemaTest, TablesOfAnOlderSchema) {
  target_.exec("begin;" + std::string(sql::target_schema) +
               "insert into pgbaton.replica (name, generation, source_system_id, source_timeline, source_database, "
               "slot, publication, phase) values ('r', 'g', 1, 1, 'app', 'pgbaton_r', 'pgbaton_r', 'ready');"
               "insert into pgbaton.table_state (replica, generation, schema_name, table_name, source_oid) values "
               "('r', 'g', 'public', 't', 5); commit");
  const auto replica = store_.load_replica("r");
  ASSERT_TRUE(replica);
  EXPECT_THAT(store_.load_tables(*replica).at(0).source_shape, IsEmpty());
  store_.install();
  auto table = store_.load_tables(*replica).at(0);
  EXPECT_THAT(table.source_shape, IsEmpty());
  EXPECT_EQ(table.missing_rows, 0);
  table.source_shape = R"({"columns": {"1": "it's"}})";
  table.note = "seen";
  store_.store_observed(*replica, table);
  TableState later;
  later.source_oid = 6;
  later.name = {"public", "later"};
  store_.add_tables(*replica, {later, table});
  const auto now = store_.load_tables(*replica);
  ASSERT_EQ(now.size(), 2u);
  EXPECT_EQ(now[1].source_shape, table.source_shape);
  EXPECT_EQ(now[1].note, "seen");
}

TEST_F(StateSchemaTest, ForeignSchemaIsRefused) {
  target_.exec("create schema pgbaton");
  expect_error(ErrorKind::preflight, "did not make", [&] { store_.install(); });
}

}  // namespace
}  // namespace pgbaton::state
