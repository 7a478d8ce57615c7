// Pipelines and COPY of pg/ on a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pgbaton/pg/copy.hpp>
#include <pgbaton/pg/pipeline.hpp>

#include "support/cluster.hpp"

namespace pgbaton::pg {
namespace {

using testing::Cluster;

class DataPlaneTest : public ::testing::Test {
 protected:
  Cluster server_;
  Connection connection_ = Connection::open({Side::target, server_.conninfo(), "blue", "UTF8"}, "apply");
  void SetUp() override {
    server_.exec("create table public.t (id int primary key, v text)");
    connection_.exec("begin");
  }
  long long stored() { return server_.number("select count(*) from t"); }
  std::string one() { return connection_.exec("select 1").text(0, 0); }
};
using PipelineTest = DataPlaneTest;
using CopyTest = DataPlaneTest;

TEST_F(PipelineTest, ManyStatementsEachChecked) {
  constexpr int kCount = 200'000;
  long long checked = 0;
  {
    Pipeline pipeline(connection_);
    pipeline.prepare("ins", "insert into public.t values ($1, $2)");
    for (int i = 0; i < kCount; ++i) {
      const auto id = std::to_string(i);
      const std::vector<Parameter> parameters{id, i % 2 == 0 ? Parameter("v") : std::nullopt};
      pipeline.send_prepared("ins", parameters, [&, i](const Result& r) {
        if (r.affected() == 1 && checked == i) ++checked;
      });
    }
    EXPECT_EQ(pipeline.pending(), kCount + 1u);
    pipeline.run();
    EXPECT_EQ(pipeline.pending(), 0u);
    pipeline.send("select count(v) from public.t", {}, [&](const Result& r) { EXPECT_EQ(r.value(0, 0), "100000"); });
    pipeline.run();
  }
  EXPECT_EQ(checked, kCount);
  connection_.exec("commit");
  EXPECT_EQ(stored(), kCount);
}

// Neither side may wait for the other: the server's results fill the socket while we send.
TEST_F(PipelineTest, LargeResultsWhileMuchIsSent) {
  const std::string big(100'000, 'x');
  const std::vector<Parameter> parameters{big};
  std::size_t bytes = 0;
  Pipeline pipeline(connection_);
  for (int i = 0; i < 500; ++i) {
    pipeline.send("select $1::text || $1", parameters, [&](const Result& r) { bytes += r.value(0, 0).size(); });
  }
  pipeline.run();
  EXPECT_EQ(bytes, 100'000'000u);
}

TEST_F(PipelineTest, TheFirstErrorIsThrownAfterDraining) {
  connection_.exec("insert into public.t values (7); savepoint s");
  int checked = 0;
  {
    Pipeline pipeline(connection_);
    for (int i = 0; i < 20'000; ++i) {
      const auto id = std::to_string(i == 10'000 ? 7 : 100 + i);
      const std::vector<Parameter> parameters{id};
      pipeline.send(
          "insert into public.t values ($1)", parameters, [&](const Result&) { ++checked; },
          static_cast<std::uint64_t>(i));
    }
    try {
      pipeline.run();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.sqlstate(), "23505");
      EXPECT_EQ(e.key(), "(id)=(7)");
      EXPECT_EQ(e.side(), Side::target);
    }
    EXPECT_EQ(pipeline.failed_tag(), 10'000u);
    EXPECT_EQ(pipeline.pending(), 0u);
  }
  EXPECT_EQ(checked, 10'000);
  connection_.exec("rollback to s");
  Pipeline again(connection_);
  again.send("insert into public.t values (8)", {});
  again.run();
}

TEST_F(PipelineTest, ValuesChecksAndDestruction) {
  {
    SCOPED_TRACE("AZeroByteIsRefused");
    Pipeline pipeline(connection_);
    const std::vector<Parameter> parameters{std::string_view("a\0b", 3)};
    EXPECT_THROW(pipeline.send("select $1::text", parameters), Error);
    pipeline.run();
  }
  {
    SCOPED_TRACE("AnEmptyPipelineAndManyRuns");
    Pipeline pipeline(connection_);
    pipeline.run();
    for (int i = 0; i < 1000; ++i) {
      pipeline.send("select 1", {});
      pipeline.run();
    }
  }
  {
    SCOPED_TRACE("LargeParameters");
    const std::string big(50'000'000, 'y');
    const std::vector<Parameter> parameters{big};
    Pipeline pipeline(connection_);
    pipeline.send("insert into public.t values (9, $1)", parameters);
    pipeline.send("select length(v) from public.t where id = 9", {},
                  [](const Result& r) { EXPECT_EQ(r.value(0, 0), "50000000"); });
    pipeline.run();
  }
  {
    SCOPED_TRACE("ACheckThatThrowsIsHeldUntilDrained");
    int after = 0;
    {
      Pipeline pipeline(connection_);
      pipeline.send(
          "update public.t set v = '' where id = 2", {},
          [](const Result& r) {
            if (r.affected() != 1) throw Error(ErrorKind::rejected, "no such row");
          },
          5);
      pipeline.send("insert into public.t values (1)", {}, [&](const Result&) { ++after; });
      EXPECT_THROW(pipeline.run(), Error);
      EXPECT_EQ(pipeline.failed_tag(), 5u);
    }
    EXPECT_EQ(after, 0);
    EXPECT_EQ(one(), "1");
  }
  {
    SCOPED_TRACE("DestroyedBeforeRunLeavesAUsableConnection");
    try {
      Pipeline pipeline(connection_);
      for (int i = 0; i < 1000; ++i)
        pipeline.send("insert into public.t values (1)", {}, [](const Result&) { FAIL(); });
      throw std::runtime_error("something else");
    } catch (const std::runtime_error&) {
    }
    connection_.exec("rollback");
    EXPECT_EQ(one(), "1");
    EXPECT_EQ(stored(), 0);
  }
}

TEST_F(PipelineTest, ALostConnectionEndsIt) {
  Pipeline pipeline(connection_);
  for (int i = 0; i < 100; ++i) pipeline.send("select pg_sleep(0.01)", {});
  server_.exec("select pg_terminate_backend(" + std::to_string(connection_.backend_pid()) + ")");
  try {
    pipeline.run();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.action(), Action::retry) << e.describe();
  }
}

TEST_F(CopyTest, BothWaysAnEmptyTableAndOneLargeWrite) {
  {
    SCOPED_TRACE("BothWays");
    connection_.exec("insert into public.t select i, repeat('z', 100) from generate_series(1, 100000) i");
    server_.exec("create table public.copy (id int primary key, v text)");
    auto target = Connection::open({Side::target, server_.conninfo(), "blue", "UTF8"}, "copy-1");
    CopyOut out(connection_, "copy public.t to stdout (format binary)");
    CopyIn in(target, "copy public.copy from stdin (format binary)");
    for (auto row = out.read(); !row.empty(); row = out.read()) in.write(row);
    EXPECT_TRUE(out.read().empty()) << "also after the end";
    EXPECT_EQ(out.rows(), 100'000);
    EXPECT_EQ(in.finish(), 100'000);
    EXPECT_EQ(server_.number("select count(*) from copy where length(v) = 100"), 100'000);
    EXPECT_EQ(one(), "1");
  }
  {
    SCOPED_TRACE("AnEmptyTable");
    connection_.exec("delete from public.t");
    CopyOut out(connection_, "copy public.t to stdout");
    EXPECT_TRUE(out.read().empty());
    EXPECT_EQ(out.rows(), 0);
    CopyIn in(connection_, "copy public.t from stdin");
    EXPECT_EQ(in.finish(), 0);
  }
  {
    SCOPED_TRACE("OneLargeWrite");
    std::string rows;
    for (int i = 0; i < 300'000; ++i) rows += std::to_string(i) + "\t" + std::string(100, 'x') + "\n";
    CopyIn in(connection_, "copy public.t from stdin");
    in.write(rows);
    EXPECT_EQ(in.finish(), 300'000);
  }
}

TEST_F(CopyTest, DestroyedBeforeTheEndTheyAbort) {
  connection_.exec("insert into public.t select i, repeat('z', 1000) from generate_series(1, 100000) i; commit");
  {
    CopyOut out(connection_, "copy public.t to stdout");
    EXPECT_FALSE(out.read().empty());
  }
  EXPECT_EQ(one(), "1");
  {
    CopyIn in(connection_, "copy public.t from stdin");
    in.write("-1\tx\n");
  }
  EXPECT_EQ(one(), "1");
  EXPECT_EQ(stored(), 100'000);
}

TEST_F(CopyTest, ErrorsOfTheServer) {
  connection_.exec("commit");
  {
    CopyIn in(connection_, "copy public.t from stdin");
    in.write("1\tx\n1\ty\n");
    try {
      in.finish();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.sqlstate(), "23505");
      EXPECT_EQ(e.table(), "\"public\".\"t\"");
    }
  }
  EXPECT_EQ(one(), "1");
  {
    CopyOut out(connection_, "copy (select 1 / (3 - i) from generate_series(1, 3) i) to stdout");
    EXPECT_THROW(
        {
          while (!out.read().empty()) {
          }
        },
        Error);
  }
  EXPECT_EQ(one(), "1");
  EXPECT_THROW(CopyOut(connection_, "copy nowhere to stdout"), Error);
  EXPECT_THROW(CopyOut(connection_, "select 1"), Error);
  EXPECT_EQ(one(), "1");
}

TEST_F(CopyTest, ALostConnection) {
  connection_.exec("insert into public.t select i, repeat('z', 1000) from generate_series(1, 100000) i; commit");
  const auto pid = std::to_string(connection_.backend_pid());
  CopyOut out(connection_, "copy public.t to stdout");
  EXPECT_FALSE(out.read().empty());
  server_.exec("select pg_terminate_backend(" + pid + ")");
  try {
    while (!out.read().empty()) {
    }
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.action(), Action::retry) << e.describe();
  }
}

}  // namespace
}  // namespace pgbaton::pg
