// Every major as a source with every newer one (and some older ones) as a target: cloned under load, killed while it
// streams, started again, drained, finished, and compared by the independent judge. One source database carries all
// shapes of tables (tests/data/upgrade) and feeds its targets one after another. The result is one table.
#include <signal.h>

#include <atomic>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>

#include "support/pair.hpp"

namespace pgbaton::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSources[] = {12, 14, 15, 16, 17, 18};
constexpr int kTargets[] = {15, 16, 17, 18};
constexpr int kNewestPgDump = 15;  // Debian 12's; the packages of other majors hold none
// Sources that are worked on at a time.
constexpr std::size_t kWorkers = 2;

std::string shapes(int source, int target) {
  auto sql = read_test_data("upgrade/shapes.sql");
  const std::string mark = "{generated}";
  return sql.replace(sql.find(mark), mark.size(), source >= 18 && target >= 18 ? "virtual" : "stored");
}

struct Line {
  int source = 0, target = 0;
  std::string schema;
  double clone_seconds = 0, seconds = 0;
  long long transactions = 0, rows = 0;
  std::string result;  // "equal", or what went wrong
};

// One hand-over. Throws std::runtime_error with what went wrong.
class Pair {
 public:
  Pair(Cluster& source, Cluster& target) : source_(source), target_(target) {
    line_.source = source.major();
    line_.target = target.major();
    line_.schema = source.major() <= kNewestPgDump ? "pg_dump" : "none";
    database_ = "from_" + std::to_string(source.major());
    name_ = "to_" + std::to_string(target.major());
  }

  Line run() {
    const auto begin = Clock::now();
    try {
      prepare();
      hand_over();
      compare();
      line_.result = "equal";
    } catch (const std::exception& error) {
      line_.result = error.what();
    }
    line_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return line_;
  }

 private:
  void prepare() {
    target_.exec("create database " + database_);
    if (line_.schema == "none") target_.exec(shapes(line_.source, line_.target), database_);
  }

  void hand_over() {
    const auto before = transactions();
    Pgbench load(source_.conninfo(), {"-c", "2", "-T", "600", "-R", "120", "-b", "tpcb-like"},
                 read_test_data("upgrade/load.sql"));
    const auto begin = Clock::now();
    succeed("clone", {"--until", "caught-up", "--schema", line_.schema == "none" ? "none" : "full"});
    line_.clone_seconds = std::chrono::duration<double>(Clock::now() - begin).count();

    auto first = start("follow");
    require_arrival(first);
    source_.exec(
        "begin; truncate scratch; insert into big select (select coalesce(max(id), 0) from big) + i, md5(i::text) "
        "from generate_series(1, 5000) i; commit");
    first.kill_hard();
    auto second = start("follow");
    require_arrival(second);
    verify();
    if (!load.running()) load.wait();  // throws with its output
    load.stop();
    require(source_.wait_until("select count(*) from pg_stat_activity where application_name = 'pgbench'", "0"),
            "pgbench does not stop");
    second.kill(SIGTERM);
    require(second.wait(), "follow, stopped by SIGTERM");
    line_.transactions = transactions() - before;
    succeed("follow", {"--until", "caught-up"});
    succeed("sequences");
    succeed("finish");
  }

  // Under the load. One row is changed by hand where the way is long.
  void verify() {
    succeed("verify", {"--jobs", "1"});
    if (line_.source != 14 || line_.target != 17) return;
    // Rows that the load does not touch.
    target_.exec("update orders set note = note || 'x' where id between 1 and 20; insert into keyless values (-5, 'x')",
                 database_);
    const auto found = start("verify", {"--jobs", "1"}).wait();
    require(found.code == 6, "verify did not see what was changed by hand: " + found.out);
    succeed("verify", {"--repair"});
  }

  void compare() {
    std::string text;
    for (const auto& line : differences(source_.conninfo(), target_.conninfo(database_), {.sequences = true}))
      text += line + "\n";
    for (const auto& line : leftovers(source_.conninfo())) text += "left on the source: " + line + "\n";
    for (const auto& line : target_leftovers(target_.conninfo(database_))) text += "left on the target: " + line + "\n";
    if (!text.empty()) throw std::runtime_error(text);
    line_.rows = target_.number(
        "select sum((xpath('/row/n/text()', query_to_xml(format('select count(*) n from only %I.%I', "
        "schemaname, tablename), false, true, '')))[1]::text::bigint) from pg_tables where schemaname "
        "not in ('pg_catalog', 'information_schema')",
        database_);
  }

  // The standard script commits one row of history each; the other is counted by its keyless rows.
  long long transactions() {
    return source_.number(
        "select (select count(*) from pgbench_history) + (select count(*) from keyless where b = 'live')");
  }
  void require_arrival(Tool& follower) {
    const auto id = std::to_string(-++marker_ - 1000LL * line_.target);
    source_.exec("insert into orders values (" + id + ", 'marker')");
    if (target_.wait_until("select count(*) from orders where id = " + id, "1", Milliseconds(30'000), database_))
      return;
    throw std::runtime_error("a row committed on the source did not arrive: " + follower.err());
  }
  Arguments arguments(const std::string& command, const Arguments& more) const {
    Arguments all{command, "--source", source_.conninfo(), "--target", target_.conninfo(database_), "--name", name_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  Tool start(const std::string& command, const Arguments& more = {}) { return Tool(arguments(command, more)); }
  void succeed(const std::string& command, const Arguments& more = {}) {
    require(start(command, more).wait(), command);
  }
  static void require(const ToolResult& result, const std::string& what) {
    if (result.code == 0) return;
    std::ostringstream text;
    text << what << ": " << result;
    throw std::runtime_error(text.str());
  }
  static void require(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error(what);
  }

  Cluster &source_, &target_;
  Line line_;
  std::string database_, name_;
  int marker_ = 0;
};

std::string table_of(const std::vector<Line>& lines) {
  std::ostringstream text;
  text << "source  target  schema   clone s  total s  transactions    rows  result\n";
  for (const auto& line : lines) {
    char row[120];
    std::snprintf(row, sizeof row, "%6d  %6d  %-7s  %7.1f  %7.1f  %12lld  %6lld  ", line.source, line.target,
                  line.schema.c_str(), line.clone_seconds, line.seconds, line.transactions, line.rows);
    text << row << (line.result == "equal" ? "equal" : "FAILED") << '\n';
  }
  return text.str();
}

class MatrixTest : public ::testing::Test {
 protected:
  // All servers are started here, at once: they must not outlive the thread that started them.
  void SetUp() override {
    for (const int major : kSources) sources_.push_back(launch(major));
    for (const int major : kTargets) targets_.push_back(launch(major));
    for (const auto& server : sources_) server->wait_ready();
    for (const auto& server : targets_) server->wait_ready();
    for (const auto& server : sources_) {
      server->exec(shapes(server->major(), server->major()) + read_test_data("upgrade/rows.sql"));
    }
  }
  static std::unique_ptr<Cluster> launch(int major) {
    auto server = std::make_unique<Cluster>(ClusterOptions{.major = major, .start = false});
    server->launch();
    return server;
  }

  void work() {
    for (std::size_t at = next_++; at < sources_.size(); at = next_++) {
      Cluster& source = *sources_[at];
      for (std::size_t t = 0; t < targets_.size(); ++t) lines_[at][t] = Pair(source, *targets_[t]).run();
    }
  }
  std::vector<Line> run_all() {
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < kWorkers; ++i) workers.emplace_back([this] { work(); });
    for (auto& worker : workers) worker.join();
    std::vector<Line> all;
    for (const auto& of_source : lines_) all.insert(all.end(), of_source.begin(), of_source.end());
    return all;
  }

  std::vector<std::unique_ptr<Cluster>> sources_, targets_;
  std::array<std::array<Line, std::size(kTargets)>, std::size(kSources)> lines_;
  std::atomic<std::size_t> next_{0};
};

TEST_F(MatrixTest, S52_EveryPairOfMajors) {
  const auto lines = run_all();
  const auto table = table_of(lines);
  std::cout << table;
  if (const char* file = std::getenv("PGBATON_TEST_MATRIX")) std::ofstream(file) << table;
  for (const auto& line : lines) {
    EXPECT_EQ(line.result, "equal") << line.source << " to " << line.target;
  }
}

}  // namespace
}  // namespace pgbaton::testing
