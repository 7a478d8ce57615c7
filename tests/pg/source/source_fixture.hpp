// One source server, and what the tests of slots, publications and the reader share.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pgbaton/source/history.hpp>
#include <pgbaton/source/publication.hpp>
#include <pgbaton/source/slot.hpp>
#include <pgbaton/source/walsender.hpp>
#include <pgbaton/wire/message.hpp>

#include <map>
#include <set>
#include <thread>

#include "support/cluster.hpp"
#include "support/load.hpp"

namespace pgbaton::testing {

class SourceTest : public ::testing::TestWithParam<int> {
 protected:
  virtual std::vector<std::pair<std::string, std::string>> settings() const {
    return {{"max_prepared_transactions", "10"}};
  }
  void SetUp() override {
    ASSERT_TRUE(Cluster::available(GetParam())) << "run scripts/postgres " << GetParam();
    server.emplace(ClusterOptions{.major = GetParam(), .settings = settings()});
    endpoint = {Side::source, server->conninfo(), "test"};
    connection = pg::open_control(endpoint, "control");
  }
  Cluster& cluster() { return *server; }
  pg::Control& control() { return *connection; }
  void exec(const std::string& sql) { server->exec(sql); }
  bool since(int major) const { return GetParam() >= major; }

  source::SlotSnapshot take(const std::string& name, bool temporary = false, Milliseconds wait = Milliseconds(30'000)) {
    return source::SlotSnapshot::create(endpoint, {.name = name, .temporary = temporary, .wait = wait}, {});
  }
  void publish(const std::vector<std::string>& tables) {
    source::PublicationPlan plan;
    plan.publication = "pgbaton";
    for (const auto& table : tables) plan.tables.push_back({"public", table});
    source::create_publications(control(), plan);
  }
  std::unique_ptr<source::ChangeReader> read(const std::string& slot, Lsn start_lsn) {
    return source::open_walsender(endpoint, {.slot = slot, .publications = {"pgbaton"}, .start_lsn = start_lsn});
  }
  // Neither slot nor walsender; connections that were closed a moment ago may need another one to end.
  void expect_nothing_left() {
    EXPECT_EQ(cluster().number("select count(*) from pg_replication_slots"), 0);
    EXPECT_EQ(cluster().number("select count(*) from pg_stat_activity where backend_type = 'walsender'"), 0);
    EXPECT_TRUE(cluster().wait_until("select count(*) from pg_stat_activity where application_name like 'pgbaton/%'",
                                     "1", Milliseconds(3000)))
        << "more than the control connection of the test";
  }

  std::optional<Cluster> server;
  pg::Endpoint endpoint;
  std::unique_ptr<pg::Control> connection;
};

// The error that `work` throws; a failure of the test when it throws none.
template <typename Work>
Error error_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorKind::failed, "no error");
}

// What the stream said, by commit LSN: the first column of every inserted row.
struct Streamed {
  std::map<Lsn, std::vector<long long>> inserts;
  std::vector<std::string> messages;
  Lsn last_end_lsn, position_lsn;
  bool in_order = true;

  std::multiset<long long> ids() const {
    std::multiset<long long> all;
    for (const auto& [commit_lsn, ids_of_one] : inserts) all.insert(ids_of_one.begin(), ids_of_one.end());
    return all;
  }
};

// Reads until every transaction with commit LSN < until_lsn has come, or the time is over.
inline Streamed read_until(source::ChangeReader& reader, Lsn until_lsn, Milliseconds timeout = Milliseconds(20'000)) {
  Streamed streamed;
  Lsn commit_lsn;
  const auto deadline = Deadline::after(timeout);
  while (!deadline.passed()) {
    const auto event = reader.next(Deadline::after(Milliseconds(100)));
    if (const auto* frame = std::get_if<source::Frame>(&event)) {
      Arena arena;
      const auto message = wire::decode(frame->body, arena);
      if (const auto* begin = std::get_if<wire::Begin>(&message)) {
        streamed.in_order = streamed.in_order && begin->commit_lsn > commit_lsn;
        commit_lsn = begin->commit_lsn;
      } else if (const auto* insert = std::get_if<wire::Insert>(&message)) {
        streamed.inserts[commit_lsn].push_back(std::stoll(std::string(insert->new_row[0].data)));
      } else if (const auto* text = std::get_if<wire::LogicalMessage>(&message)) {
        streamed.messages.emplace_back(text->prefix);
      } else if (const auto* commit = std::get_if<wire::Commit>(&message)) {
        streamed.last_end_lsn = commit->end_lsn;
        streamed.position_lsn = std::max(streamed.position_lsn, commit->end_lsn);
      }
    } else if (const auto* position = std::get_if<source::Position>(&event)) {
      streamed.position_lsn = std::max(streamed.position_lsn, position->lsn);
    } else if (std::holds_alternative<source::Stopped>(event)) {
      break;
    } else {
      reader.request_position();
    }
    if (streamed.position_lsn >= until_lsn) return streamed;
  }
  ADD_FAILURE() << "position " << to_string(until_lsn) << " not reached, only " << to_string(streamed.position_lsn);
  return streamed;
}

}  // namespace pgbaton::testing
