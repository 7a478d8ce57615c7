// The replica's life in schema pgbaton, and that a stale epoch can write nothing.
#include "store_fixture.hpp"

#include <thread>

namespace pgbaton::state {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreTest : public StoreFixture {};

TEST_F(StoreTest, ReplicaRoundTrip) {
  store_.install();
  Replica r = replica();
  store_.insert_replica(r, two_tables());
  auto loaded = store_.load_replica("r");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->generation, r.generation);
  EXPECT_EQ(loaded->source_system_id, r.source_system_id);
  EXPECT_EQ(loaded->source_timeline, 3u);
  EXPECT_EQ(loaded->source_database, "app");
  EXPECT_EQ(loaded->slot, r.slot);
  EXPECT_EQ(loaded->publication_inserts, r.publication_inserts);
  EXPECT_TRUE(loaded->owns_publication);
  EXPECT_EQ(loaded->consistent_point, Lsn{0});
  EXPECT_EQ(loaded->phase, Phase::creating);
  EXPECT_EQ(loaded->epoch, 0);
  EXPECT_EQ(loaded->options, r.options);
  EXPECT_EQ(loaded->writer_host, "");
  EXPECT_EQ(loaded->last_error, "");
  auto tables = store_.load_tables(*loaded);
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].name, (QualifiedName{"Sp a.C", "a\"b'c"}));
  EXPECT_EQ(tables[0].source_oid, 4'000'000'000u);
  EXPECT_EQ(tables[0].phase, TablePhase::pending);
  EXPECT_EQ(tables[1].note, "no key\\");
  EXPECT_TRUE(tables[1].inserts_only);
  EXPECT_EQ(tables[1].guard, GuardKind::none);
  expect_error(ErrorKind::usage, "exists already", [&] { store_.insert_replica(r, {}); });
  EXPECT_THAT(store_.replica_names(), ::testing::ElementsAre("r"));
}

TEST_F(StoreTest, ThousandsOfTables) {
  store_.install();
  std::vector<TableState> tables(2500);
  for (std::size_t i = 0; i < tables.size(); ++i) tables[i].name = {"public", "t" + std::to_string(i)};
  store_.insert_replica(replica(), tables);
  EXPECT_EQ(store_.load_tables(replica()).size(), 2500u);
}

TEST_F(StoreTest, PhasesOnlyGoForward) {
  store_.install();
  auto lease = Lease::acquire(endpoint(), "r", false);
  Replica r = begun(store_, lease);
  store_.store_consistent_point(r, Lsn{0x16B374D848});
  store_.store_phase(r, Phase::copying);
  store_.store_phase(r, Phase::copying);
  store_.store_phase(r, Phase::streaming);
  expect_error(ErrorKind::held_elsewhere, "phase", [&] { store_.store_phase(r, Phase::copying); });
  EXPECT_EQ(store_.load_replica("r")->phase, Phase::streaming);
  EXPECT_EQ(store_.load_replica("r")->consistent_point, Lsn{0x16B374D848});
  auto progress = store_.load_progress(r);
  EXPECT_EQ(progress.applied_lsn, Lsn{0x16B374D848});
  EXPECT_EQ(progress.commit_age_seconds, -1);
  EXPECT_GE(progress.updated_age_seconds, 0);
}

TEST_F(StoreTest, StepsOfReadinessOfAGeneration) {
  store_.install();
  auto lease = Lease::acquire(endpoint(), "r", false);
  Replica r = begun(store_, lease);
  store_.store_consistent_point(r, Lsn{0x100});
  store_.store_phase(r, Phase::indexing);
  const auto copied_at = store_.load_replica("r")->readiness.copied_at;
  EXPECT_THAT(copied_at, HasSubstr("Z"));
  store_.store_phase(r, Phase::indexing);  // a run that is resumed there
  store_.store_phase(r, Phase::streaming);
  EXPECT_EQ(store_.store_ready_goal(r, Lsn{0x500}, 77), Lsn{0x500});
  EXPECT_EQ(store_.store_ready_goal(r, Lsn{0x900}, 88), Lsn{0x500}) << "it is read once";
  store_.report_positions(r, Lsn{0x600}, Lsn{0x500}, Lsn{}, {{"changes_per_second", "1.5"}});
  store_.store_phase(r, Phase::ready, Lsn{0x600});
  const auto seen = store_.load_replica("r")->readiness;
  EXPECT_EQ(seen.copied_at, copied_at);
  EXPECT_THAT(seen.ready_at, HasSubstr("Z"));
  EXPECT_EQ(seen.goal_lsn, Lsn{0x500});
  EXPECT_EQ(seen.ready_lsn, Lsn{0x600});
  EXPECT_EQ(seen.lag_limit_bytes, 88);
  EXPECT_EQ(target_.scalar("select string_agg(kind, ' ' order by id) from pgbaton.event"), "copied indexed ready");
  const auto report = store_.load_report(r);
  EXPECT_EQ(report.values.at("changes_per_second"), "1.5");
  EXPECT_GE(report.age_seconds, 0);
  auto stale = r;
  --stale.epoch;
  expect_error(ErrorKind::held_elsewhere, "fenced", [&] { store_.store_ready_goal(stale, Lsn{0x900}, 1); });
  r.generation = "another";
  store_.replace_generation(r, two_tables());
  EXPECT_THAT(store_.load_replica("r")->readiness.ready_at, IsEmpty());
  EXPECT_FALSE(store_.load_replica("r")->readiness.goal_lsn);
}

TEST_F(StoreTest, StaleEpochWritesNothing) {
  store_.install();
  auto lease = Lease::acquire(endpoint(), "r", false);
  Replica r = begun(store_, lease);
  store_.store_consistent_point(r, Lsn{5});
  Replica stale = r;
  lease.begin_term();
  auto table = store_.load_tables(r).front();
  table.rows = 99;
  auto before = target_.scalar(
      "select md5(string_agg(t::text, ',')) from (select r::text t from pgbaton.replica r union all "
      "select s::text from pgbaton.table_state s union all select p::text from pgbaton.progress p "
      "order by 1) x");
  expect_error(ErrorKind::held_elsewhere, "fenced", [&] { store_.store_phase(stale, Phase::copying); });
  expect_error(ErrorKind::held_elsewhere, "fenced", [&] { store_.store_consistent_point(stale, Lsn{6}); });
  expect_error(ErrorKind::held_elsewhere, "fenced", [&] { store_.store_replica_role(stale, false); });
  expect_error(ErrorKind::held_elsewhere, "fenced", [&] { store_.store_table(stale, table); });
  expect_error(ErrorKind::held_elsewhere, "fenced", [&] { store_.report_positions(stale, Lsn{7}, Lsn{7}); });
  expect_error(ErrorKind::held_elsewhere, "fenced", [&] { store_.replace_generation(stale, {}); });
  EXPECT_EQ(target_.exec(Store::copied_statement(stale, table)), 0);
  store_.insert_request("r", "stop", "");
  EXPECT_THAT(store_.take_requests(stale), IsEmpty());
  EXPECT_EQ(before, target_.scalar("select md5(string_agg(t::text, ',')) from (select r::text t from pgbaton.replica r "
                                   "union all select s::text from pgbaton.table_state s union all select p::text from "
                                   "pgbaton.progress p order by 1) x"));
}

// A write that has passed the test holds off the new term; one that comes too late sees the new epoch.
TEST_F(StoreTest, NewTermWaitsForOpenWriteAndFencesTheNext) {
  store_.install();
  auto lease = Lease::acquire(endpoint(), "r", false);
  Replica r = begun(store_, lease);
  auto table = store_.load_tables(r).front();
  auto first = target_.session();
  first.exec("begin");
  EXPECT_EQ(first.exec(Store::copied_statement(r, table)), 1);
  std::thread next_term([&] { lease.begin_term(); });
  EXPECT_TRUE(target_.wait_until("select count(*) from pg_stat_activity where wait_event_type = 'Lock'", "1"));
  auto second = target_.session();
  second.send("begin; set local lock_timeout = '20s'; " + Store::copied_statement(r, table) + "; commit");
  first.exec("commit");
  next_term.join();
  second.finish();
  EXPECT_EQ(target_.number("select epoch from pgbaton.replica"), r.epoch + 1);
  EXPECT_EQ(target_.exec(Store::copied_statement(r, table)), 0);
}

TEST_F(StoreTest, CopiedStatementIsPartOfTheRowsTransaction) {
  store_.install();
  auto lease = Lease::acquire(endpoint(), "r", false);
  Replica r = begun(store_, lease);
  auto table = store_.load_tables(r).front();
  table.phase = TablePhase::copied;
  table.boundary = Lsn{0x100000001};
  table.rows = 12;
  auto session = target_.session();
  session.exec("begin");
  EXPECT_EQ(session.exec(Store::copied_statement(r, table)), 1);
  session.exec("rollback");
  EXPECT_EQ(store_.load_tables(r).front().phase, TablePhase::pending);
  store_.store_table(r, table);
  auto stored = store_.load_tables(r).front();
  EXPECT_EQ(stored.phase, TablePhase::copied);
  EXPECT_EQ(to_string(stored.boundary), "1/1");
  EXPECT_EQ(stored.rows, 12);
  table.name.name = "unknown";
  expect_error(ErrorKind::held_elsewhere, "unknown", [&] { store_.store_table(r, table); });
}

TEST_F(StoreTest, RequestsAreTakenOnceInOrder) {
  store_.install();
  auto lease = Lease::acquire(endpoint(), "r", false);
  Replica r = begun(store_, lease);
  EXPECT_EQ(store_.request_state(1), std::nullopt);
  auto first = store_.insert_request("r", "stop", R"({"at": 1})");
  auto second = store_.insert_request("r", "stop", "");
  store_.insert_request("other", "stop", "");
  EXPECT_EQ(store_.request_state(first), "open");
  auto taken = store_.take_requests(r);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].id, first);
  EXPECT_EQ(taken[0].payload, (Fields{{"at", "1"}}));
  EXPECT_EQ(taken[1].id, second);
  EXPECT_THAT(store_.take_requests(r), IsEmpty());
  EXPECT_EQ(store_.request_state(first), "taken");
  EXPECT_TRUE(store_.report_request(first, {{"said", "a \"b\" \\ \n"}}));
  EXPECT_EQ(store_.load_request(first)->state, "taken");
  EXPECT_EQ(store_.load_request(first)->result, (Fields{{"said", "a \"b\" \\ \n"}}));
  store_.complete_request(first, "");
  EXPECT_EQ(store_.request_state(first), "done");
  expect_error(ErrorKind::failed, "request", [&] { store_.complete_request(first, ""); });
}

TEST_F(StoreTest, ANewGenerationReplacesTheOld) {
  store_.install();
  auto lease = Lease::acquire(endpoint(), "r", false);
  Replica r = begun(store_, lease);
  store_.store_consistent_point(r, Lsn{5});
  Replica next = r;
  next.generation = "6f1c5f0e-0000-4000-8000-000000000002";
  next.options = "{}";
  auto tables = two_tables();
  tables.pop_back();
  store_.replace_generation(next, tables);
  auto loaded = store_.load_replica("r");
  EXPECT_EQ(loaded->generation, next.generation);
  EXPECT_EQ(loaded->consistent_point, Lsn{0});
  EXPECT_EQ(loaded->epoch, r.epoch);
  EXPECT_EQ(store_.load_tables(*loaded).size(), 1u);
  EXPECT_EQ(target_.number("select count(*) from pgbaton.progress"), 0);
}

TEST_F(StoreTest, DeleteTakesEverythingAndTheLastOneTheSchema) {
  store_.install();
  for (const char* name : {"r", "s"}) {
    auto lease = Lease::acquire(endpoint(name), name, false);
    Replica r = begun(store_, lease, name);
    store_.store_consistent_point(r, Lsn{5});
    store_.insert_request(name, "stop", "");
    store_.add_event(name, "started", R"({"n": 1})");
  }
  store_.delete_replica("r");
  store_.drop_schema_if_unused();
  EXPECT_EQ(target_.number("select (select count(*) from pgbaton.replica) + (select count(*) from pgbaton.progress) + "
                           "(select count(*) from pgbaton.request) + (select count(*) from pgbaton.event)"),
            4);
  store_.delete_replica("s");
  target_.exec("create view public.watch as select * from pgbaton.replica");
  expect_error(ErrorKind::rejected, "watch", [&] { store_.drop_schema_if_unused(); });
  EXPECT_TRUE(store_.installed());
  target_.exec("drop view public.watch");
  // The registry of rebuilds keeps it, too.
  target_.exec("insert into pgbaton.generation (live_database, replica, state, built) values ('d', 'r', 'live', true)");
  store_.drop_schema_if_unused();
  EXPECT_TRUE(store_.installed());
  target_.exec("delete from pgbaton.generation");
  store_.drop_schema_if_unused();
  EXPECT_FALSE(store_.installed());
  EXPECT_EQ(target_.number("select count(*) from pg_namespace where nspname = 'pgbaton'"), 0);
  store_.drop_schema_if_unused();
}

TEST_F(StoreTest, EventsAreBounded) {
  store_.install();
  target_.exec("insert into pgbaton.event (replica, kind) select 'r', 'x' from generate_series(1, 3000)");
  store_.add_event("r", "y", "");
  EXPECT_EQ(target_.number("select count(*) from pgbaton.event"), 1000);
}

TEST_F(StoreTest, LastErrorIsForEverybodyAndClearedByTheNextTerm) {
  store_.install();
  store_.store_last_error("r", R"({"kind": "failed"})");  // no such replica: nothing to say, no error
  auto lease = Lease::acquire(endpoint(), "r", false);
  begun(store_, lease);
  store_.store_last_error("r", R"({"kind": "failed"})");
  EXPECT_EQ(store_.load_replica("r")->last_error, R"({"kind": "failed"})");
  lease.begin_term();
  EXPECT_EQ(store_.load_replica("r")->last_error, "");
}

}  // namespace
}  // namespace pgbaton::state
