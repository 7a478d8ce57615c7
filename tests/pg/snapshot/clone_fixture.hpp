// Two servers, and run_clone() called as the command does.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/snapshot/clone.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "support/cluster.hpp"
#include "support/compare.hpp"

namespace pgbaton::snapshot {

class CloneTest : public ::testing::Test {
 protected:
  CloneTest() {
    source_.launch();
    target_.launch();
    source_.wait_ready();
    target_.wait_ready();
  }
  CloneOptions options(const std::string& name = "") const {
    CloneOptions result;
    result.names = ReplicaNames(name);
    result.source.side = Side::source;
    result.source.conninfo = source_.conninfo();
    result.target.side = Side::target;
    result.target.conninfo = target_.conninfo();
    result.source.replica_name = result.target.replica_name = result.names.name;
    result.slot_wait = Milliseconds(10'000);
    return result;
  }
  CloneSummary clone(const CloneOptions& given, const std::stop_token& stop = {}) {
    auto control = pg::open_control(given.target, "test");
    state::Store(*control).install();
    auto lease = state::Lease::acquire(given.target, given.names.name, false);
    copy::CopyProgress progress;
    return run_clone(given, lease, progress, stop);
  }
  template <typename Work>
  Error error_of(Work work) {
    try {
      work();
    } catch (const Error& error) {
      EXPECT_THAT(error.hint(), ::testing::Not(::testing::IsEmpty())) << error.describe();
      return error;
    }
    return Error(ErrorKind::differences, "no error");
  }
  std::string state_of(const std::string& table, const std::string& expression) {
    return target_.scalar("select " + expression + " from pgbaton.table_state where table_name = '" + table + "'");
  }
  // A clone that is stopped once `first` is copied and `second` is in its middle.
  void interrupt_clone(const CloneOptions& slow, const std::string& first) {
    state::Store(*pg::open_control(slow.target, "test")).install();
    std::stop_source stop;
    auto run = std::async(std::launch::async, [&] { return error_of([&] { clone(slow, stop.get_token()); }); });
    EXPECT_TRUE(target_.wait_until("select count(*) from pgbaton.table_state where table_name = '" + first +
                                       "' and phase in ('copied', 'indexed', 'done')",
                                   "1"));
    stop.request_stop();
    EXPECT_EQ(run.get().kind(), ErrorKind::failed);
  }

  // A session that was closed is seen for a moment longer.
  std::vector<std::string> target_leftovers() {
    target_.wait_until("select count(*) from pg_stat_activity where application_name like 'pgbaton/%'", "0");
    return testing::target_leftovers(target_.conninfo());
  }

  testing::Cluster source_{{.start = false}}, target_{{.start = false}};
};

inline constexpr auto kThirdTable =
    "; create table other (id int primary key, v text);"
    "insert into other select i, repeat('y', 100) from generate_series(1, 20000) i";
inline constexpr auto kTwoTables =
    "create table big (id int primary key, v text); create table little (id int primary key, big_id int references "
    "big);"
    "insert into big select i, repeat('x', 100) from generate_series(1, 40000) i;"
    "insert into little select i, i from generate_series(1, 10) i; create index on big (v)";

}  // namespace pgbaton::snapshot
