// What nearly every scenario needs: a source, a target, and the tool between them.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster.hpp"
#include "compare.hpp"
#include "load.hpp"
#include "tool.hpp"

namespace pgbaton::testing {

class PairTest : public ::testing::Test {
 protected:
  // Settings of both servers; override to change them or the majors.
  virtual ClusterOptions source_options() const { return {}; }
  virtual ClusterOptions target_options() const { return {}; }
  void SetUp() override;
  void TearDown() override;

  Cluster& source() { return *source_; }
  Cluster& target() { return *target_; }
  // COMMAND --source … --target … and the rest.
  Arguments arguments(const std::string& command, const Arguments& more = {}) const;
  ToolResult run(const std::string& command, const Arguments& more = {}, const Environment& environment = {},
                 Milliseconds timeout = Milliseconds(90'000));
  Tool start(const std::string& command, const Arguments& more = {}, const Environment& environment = {});
  // clone --until caught-up, expected to succeed.
  void clone_until_caught_up(const Arguments& more = {});
  // follow --until caught-up, then an independent comparison; the lines go into the failure.
  void expect_equal_after_drain(const CompareOptions& options = {});
  void expect_equal(const CompareOptions& options = {});
  // Waits until an own row written on the source now has arrived on the target: only while a follower runs, and only
  // after create_marker() before the clone.
  void create_marker();
  ::testing::AssertionResult marker_arrives(Milliseconds timeout = Milliseconds(30'000));
  // (id bigint primary key, n int, pad text) with ids 1 … rows and a pad of `width` characters that does not compress.
  void create_filled(const std::string& table, int rows, int width = 100);
  // Until COPY into this table of the target runs and has stored that many rows; then the source still has its
  // snapshot.
  bool wait_copying(const std::string& table, long long rows = 1, Milliseconds timeout = Milliseconds(30'000));
  // Until status says this phase, or lists one of several as "a|b".
  bool wait_phase(const std::string& phases, Milliseconds timeout = Milliseconds(60'000));
  // Until --for of the wait command; the exit code goes into the failure.
  ::testing::AssertionResult wait_for(const std::string& what, const std::string& timeout = "60s");
  // SIGTERM to a follower, which must end with 0.
  void stop_follower(Tool& follower);
  // status --json as text; a field of it by a path of names "lag.bytes" ("" when absent).
  std::string status_field(const std::string& path);

  std::unique_ptr<Cluster> source_, target_;
};

}  // namespace pgbaton::testing
