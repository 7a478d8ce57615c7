// Rebuilds of database `shop` on the target from database `postgres` of the source.
#pragma once
#include <signal.h>

#include <atomic>
#include <optional>
#include <thread>

#include "support/pair.hpp"

namespace pgbaton::testing {

// Waits until the process has stopped itself; false when it ended or the time is over. (faults.cpp)
bool wait_frozen(Tool& tool, Milliseconds timeout);

class Rebuilds : public PairTest {
 protected:
  ClusterOptions target_options() const override { return {.settings = {{"max_prepared_transactions", "2"}}}; }
  std::string shop() const { return target_->conninfo("shop"); }
  Arguments line(const std::string& command, const Arguments& more = {}, const std::string& user = "postgres") const {
    Arguments all{command, "--source", source_->conninfo(), "--target", target_->conninfo("shop", user)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ToolResult rebuild(const Arguments& more = {}, const std::string& failpoints = "") {
    return Tool::run(line("rebuild", more), Milliseconds(120'000), environment(failpoints));
  }
  // Stands still at the failpoint.
  Tool frozen(const std::string& point, const Arguments& more = {}) {
    Tool tool(line("rebuild", more), environment(point + "=freeze"));
    EXPECT_TRUE(wait_frozen(tool, Milliseconds(60'000))) << tool.err();
    return tool;
  }
  static Environment environment(const std::string& failpoints) {
    return failpoints.empty() ? Environment{} : Environment{{"PGBATON_FAILPOINTS", failpoints}};
  }
  // Transactions of move() keep the sum of `one` and `two`, and both have the same number of rows for ever.
  void create_tables() {
    source().exec(
        "create table one (id int primary key, n int not null); create table two (id int primary key, n int not null);"
        "insert into one select i, 100 from generate_series(1, 500) i; insert into two select * from one;"
        "create table version (id serial primary key); insert into version default values;"
        "create index on two (n); alter table two add foreign key (id) references one");
  }
  static void move(Load::Turn& turn) {
    const auto id = std::to_string(1 + (turn.thread * 250 + turn.round) % 500);
    turn.session.exec("begin; update one set n = n - 1 where id = " + id +
                      "; update two set n = n + 1 where id = " + id + "; commit");
    turn.session.exec("select pg_sleep(0.002)");
  }
  // A new version on the source, by which a generation is told from those before.
  long long next_version() { return source().number("insert into version default values returning id"); }
  long long served_version() { return target().number("select max(id) from version", "shop"); }
  long long databases(const std::string& pattern = "shop%") {
    return target().number("select count(*) from pg_database where datname like '" + pattern + "'");
  }
  long long generations(const std::string& state) {
    return target().number("select count(*) from pgbaton.generation where state = '" + state + "'");
  }
  void expect_clean(long long kept) {
    EXPECT_THAT(leftovers(source().conninfo()), ::testing::IsEmpty());
    EXPECT_EQ(databases(), 1 + kept);
    EXPECT_EQ(generations("building"), 0);
    EXPECT_EQ(generations("live"), 1);
    EXPECT_EQ(generations("kept"), kept);
    EXPECT_EQ(target().number("select count(*) from pgbaton.generation"), 1 + kept);
    EXPECT_EQ(target().number("select count(*) from pg_namespace where nspname = 'pgbaton'", "shop"), 0);
  }
  void expect_served(const std::string& what = "") {
    EXPECT_THAT(differences(source().conninfo(), shop()), ::testing::IsEmpty()) << what;
  }
};

// Looks at the live database all the time, on one connection, or on a new one for each look; connects again when it is
// ended or refused.
class PollingReader {
 public:
  PollingReader(std::string conninfo, bool keeps_connection)
      : conninfo_(std::move(conninfo)), keeps_connection_(keeps_connection), thread_([this] { run(); }) {}
  ~PollingReader() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  long long looks() const { return looks_; }
  // Between two looks that worked.
  Milliseconds longest_gap() const { return Milliseconds(gap_); }
  std::vector<std::string> wrong() const { return wrong_; }  // after stop()

 private:
  void look(Session& session) {
    const auto row = session.query(
        "select (select count(*) from one), (select count(*) from two), (select sum(n) from one) + (select sum(n) from "
        "two), (select max(id) from version)")[0];
    const auto text = *row[0] + " " + *row[1] + " " + row[2].value_or("-");
    if (text != "500 500 100000") wrong_.push_back(text);
    const auto version = std::stoll(row[3].value_or("0"));
    if (version < version_) wrong_.push_back("went back to version " + std::to_string(version));
    version_ = version;
    const auto now = std::chrono::steady_clock::now();
    if (looks_ > 0) gap_ = std::max<long long>(gap_, std::chrono::duration_cast<Milliseconds>(now - last_).count());
    last_ = now;
    ++looks_;
  }
  void run() {
    std::optional<Session> session;
    while (!stop_) {
      try {
        if (!session) session.emplace(conninfo_);
        look(*session);
        if (!keeps_connection_) session.reset();
        std::this_thread::sleep_for(Milliseconds(2));
      } catch (const std::exception&) {
        session.reset();
      }
    }
  }

  const std::string conninfo_;
  const bool keeps_connection_;
  std::atomic<bool> stop_{false};
  std::atomic<long long> looks_{0}, gap_{0};
  long long version_ = 0;
  std::chrono::steady_clock::time_point last_;
  std::vector<std::string> wrong_;
  std::thread thread_;
};

}  // namespace pgbaton::testing
