#include "round.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <functional>
#include <iostream>
#include <optional>

#include "support/compare.hpp"

namespace pgbaton::schemas {
namespace {

using testing::Arguments;
using testing::Milliseconds;
using testing::Tool;
using testing::ToolResult;
using Clock = std::chrono::steady_clock;

constexpr int kConnections = 4;

// Where the tool kills itself, and how often such a place is passed before.
struct Place {
  const char* name;
  int most;
};
constexpr std::array kPlaces{Place{"publication_created", 1},  Place{"slot_created", 1},
                             Place{"snapshot_settled", 1},     Place{"replica_recorded", 1},
                             Place{"schema_part_restored", 4}, Place{"schema_restored", 1},
                             Place{"copy_table_half", 30},     Place{"copy_before_commit", 40},
                             Place{"copy_after_commit", 40},   Place{"table_copied", 40},
                             Place{"table_indexed", 30},       Place{"table_guarded", 30},
                             Place{"leaf_guarded", 4},         Place{"indexes_built", 1},
                             Place{"rest_restored", 1},        Place{"before_streaming", 1},
                             Place{"stream_connected", 1},     Place{"apply_window_written", 20},
                             Place{"apply_before_commit", 20}, Place{"apply_after_commit", 20},
                             Place{"before_confirm", 5},       Place{"confirmed", 5},
                             Place{"ready_recorded", 1},       Place{"read_slot_copied", 2},
                             Place{"peek_step_read", 10},      Place{"read_slot_advanced", 10},
                             Place{"slot_advanced", 5}};

std::string tail(const std::string& text) {
  constexpr std::size_t kTail = 3000;
  return text.size() <= kTail ? text : "…" + text.substr(text.size() - kTail);
}

const char* describe(Identity identity) {
  switch (identity) {
    case Identity::primary_key:
      return "primary key";
    case Identity::unique_index:
      return "unique index";
    case Identity::full:
      return "full";
    case Identity::deferrable_full:
      return "full, deferrable key";
    case Identity::deferrable:
      return "deferrable key";
    case Identity::none:
      return "none";
  }
  return "";
}

class Round {
 public:
  Round(Servers& servers, Report& report, std::uint64_t seed, int number, int schemas)
      : servers_(servers),
        report_(report),
        random_(seed * 1'000'003 + static_cast<std::uint64_t>(number)),
        database_(fmt::format("schemas_{}", number)),
        label_(fmt::format("seed {} round {}", seed, number)),
        grows_(chance(random_, 50)) {
    create(schemas);
    choose_options();
  }

  void run() {
    {
      Writers writers(servers_.source.conninfo(database_), schemas_, random_(), kConnections);
      for (int i = 0, count = pick(random_, 1, 4); i < count; ++i) killed_start();
      start();
      wait("ready", [&] {
        writers.slow_down();
        settle_doubts();
      });
      if (chance(random_, 50)) set_traps();
      std::this_thread::sleep_for(Milliseconds(pick(random_, 0, 1500)));
      if (chance(random_, 50)) {
        stop();
        start();
      }
      std::this_thread::sleep_for(Milliseconds(pick(random_, 200, 1000)));
      writers.stop();
      report_.committed += writers.committed();
      for (const auto& [message, failure] : writers.errors())
        fail(fmt::format("{} times {}: {}", failure.count, message, failure.example));
    }
    if (grows_) show_every_column();
    wait("caught-up");
    stop();
    compare("after the stream");
    finish();
    servers_.source.exec("drop database " + database_ + " with (force)");
    servers_.target.exec("drop database " + database_ + " with (force)");
  }

 private:
  void create(int schemas) {
    servers_.source.exec("create database " + database_);
    servers_.target.exec("create database " + database_);
    auto session = servers_.source.session(database_);
    session.exec("set client_min_messages = warning");
    session.exec(kSharedTypes);
    for (int i = 0; i < schemas; ++i) {
      schemas_.push_back({i % 3 == 0 ? fmt::format("\"S {}'%\"", i) : fmt::format("s{}", i), {}});
      auto& schema = schemas_.back();
      session.exec(fmt::format("create schema {0}; set search_path = {0}, public", schema.name));
      session.exec(kOwnTypes);
      for (int t = 0, tables = pick(random_, 2, 4); t < tables; ++t) {
        schema.tables.push_back(make_table(random_, schema.name, schema.tables, grows_));
        fill(session, schema.tables.back());
      }
      report_.tables += static_cast<long long>(schema.tables.size());
    }
    report_.schemas += schemas;
  }

  void fill(testing::Session& session, const Table& table) {
    count_kind(table);
    try {
      session.exec(table.definition);
    } catch (const testing::SqlError& error) {
      throw std::runtime_error(fmt::format("{}: {} in:\n{}", label_, error.what(), table.definition));
    }
    for (int i = 0, count = pick(random_, 0, 12); i < count; ++i)
      run_transaction(session, {{"begin"}, {insert_rows(random_, table, pick(random_, 1, 6), true)}, {"commit"}});
  }

  void count_kind(const Table& table) {
    const auto holds = [&](const char* text) { return table.definition.find(text) != std::string::npos; };
    ++report_.kinds[std::string("identity ") + describe(table.identity)];
    if (!table.leaves.empty()) ++report_.kinds["partitioned"];
    if (!table.children.empty()) ++report_.kinds["with a child"];
    if (holds("foreign key")) ++report_.kinds["foreign key"];
    if (!table.area.empty()) ++report_.kinds["exclusion constraint"];
    if (holds("create trigger")) ++report_.kinds["triggers"];
    if (!table.later.empty()) ++report_.kinds["columns to come"];
  }

  void choose_options() {
    static constexpr std::array kGuards{"column", "column", "ledger", "none"};
    guard_ = any_of(random_, kGuards);
    options_ = {"--guard",      guard_,
                "--memory",     chance(random_, 70) ? "1MB" : "64MB",
                "--jobs",       std::to_string(pick(random_, 1, 4)),
                "--index-jobs", std::to_string(pick(random_, 1, 3))};
    if (chance(random_, 60))
      options_.insert(options_.end(), {"--max-rate", fmt::format("{}kB", pick(random_, 100, 1000))});
    if (chance(random_, 30)) options_.insert(options_.end(), {"--split-above", "64kB"});
    if (chance(random_, 30)) options_.insert(options_.end(), {"--tombstones", "always"});
    static constexpr std::array kReaders{"peek", "auto", "walsender"};
    options_.insert(options_.end(), {"--reader", any_of(random_, kReaders)});
    if (grows_) options_.insert(options_.end(), {"--drift", "add-columns"});
    std::cout << fmt::format("{}: {} schemas, {}", label_, schemas_.size(), fmt::join(options_, " ")) << std::endl;
  }

  // Triggers that only the target has, and that must never fire.
  void set_traps() {
    auto session = servers_.target.session(database_);
    session.exec(
        "create function public.never() returns trigger language plpgsql as $$ begin raise exception 'fired'; end $$");
    for (const auto& schema : schemas_)
      for (const auto& table : schema.tables)
        set_trap(session, fmt::format("create trigger never before insert or update or delete on {} for each row "
                                      "execute function public.never()",
                                      table.name));
  }

  // Locks of a table and its partitions, taken against the applier's.
  static void set_trap(testing::Session& session, const std::string& sql) {
    for (;;) {
      try {
        session.exec(sql);
        return;
      } catch (const testing::SqlError& error) {
        if (error.sqlstate != "40P01") throw;
      }
    }
  }

  // A column comes to the target with the first row that has it: every table gets such a row.
  void show_every_column() {
    auto session = servers_.source.session(database_);
    for (const auto& schema : schemas_) {
      session.exec("set search_path = " + schema.name + ", public");
      for (const auto& table : schema.tables) show_columns(session, table);
    }
  }

  void show_columns(testing::Session& session, const Table& table) {
    if (!table.insert_only() && session.exec(fmt::format("update {} set {} = {}", table.name, kChooser, kChooser)) > 0)
      return;
    constexpr int kTries = 100;  // keys that are taken, foreign keys that lead nowhere
    for (int i = 0; i < kTries; ++i) {
      try {
        if (session.exec(insert_rows(random_, table, 1, false)) > 0) return;
      } catch (const testing::SqlError&) {  // another row, then
      }
    }
    fail("no row could be inserted into " + table.name);
  }

  Arguments arguments(const std::string& command) const {
    return {command, "--source", servers_.source.conninfo(database_), "--target", servers_.target.conninfo(database_)};
  }

  // `failpoint`: one more for PGBATON_FAILPOINTS, or "".
  void start(const std::string& failpoint = "") {
    std::string points = "peek_small_steps=on";
    if (chance(random_, 30)) points += ",tiny_windows=on";
    if (!failpoint.empty()) points += "," + failpoint;
    Arguments all = arguments("clone");
    all.insert(all.end(), options_.begin(), options_.end());
    all.insert(all.end(), {"--follow", "--keyless", "insert-only", "--progress", "none"});
    tool_.reset();
    tool_.emplace(all, testing::Environment{{"PGBATON_FAILPOINTS", points}});
    ++report_.starts;
  }

  // Started, and killed: at a place that chance names, or at any time.
  void killed_start() {
    if (chance(random_, 60)) {
      const auto& place = any_of(random_, kPlaces);
      start(fmt::format("{}=kill@{}", place.name, pick(random_, 1, place.most)));
      // A place that only the stream passes is met soon after, or never.
      if (tool_->wait_for_stderr("ready:", Milliseconds(15'000)))
        std::this_thread::sleep_for(Milliseconds(pick(random_, 500, 1500)));
      end_of_start(fmt::format("failpoint {}", place.name));
    } else {
      static constexpr std::array kMilestones{"consistent point", "the copy is complete", "streaming from", "ready:"};
      start();
      if (chance(random_, 75)) tool_->wait_for_stderr(any_of(random_, kMilestones), Milliseconds(15'000));
      std::this_thread::sleep_for(Milliseconds(pick(random_, 0, 1500)));
      end_of_start("killed");
    }
  }

  void end_of_start(const std::string& how) {
    const bool ended = !tool_->running();
    const auto result = ended ? tool_->wait() : tool_->kill_hard();
    ++report_.ends[ended || how == "killed" ? how : "killed"];
    if (result.code != 128 + SIGKILL && result.code != 1) unexplained(result);
  }

  void unexplained(const ToolResult& result) {
    fail(fmt::format("the tool ended with {}:\n{}", result.code, tail(result.err)));
  }

  // `too_slow` is called every twenty seconds that it takes.
  void wait(
      const std::string& what, const std::function<void()>& too_slow = [] {}) {
    auto patience = Clock::now() + std::chrono::seconds(20);
    const auto deadline = Clock::now() + std::chrono::seconds(300);
    for (;;) {
      if (!tool_->running()) {
        const auto result = tool_->wait();
        if (result.code != 1) {
          unexplained(result);
          throw std::runtime_error(label_ + " cannot go on");
        }
        start();  // a session of the killed process was in the way
      }
      auto all = arguments("wait");
      all.insert(all.end(), {"--for", what, "--timeout", "4s"});
      if (Tool::run(all).code == 0) return;
      if (Clock::now() > patience) {
        too_slow();
        patience = Clock::now() + std::chrono::seconds(20);
      }
      if (Clock::now() > deadline) throw std::runtime_error(label_ + " is not " + what + ":\n" + tail(tool_->err()));
    }
  }

  // VACUUM FULL of a table with a column that was added with a default looks like ALTER TYPE, and keeps the replica
  // from becoming ready until its rows were compared. That there is no difference is what this round is about. Without
  // a doubt it would only take the stream's time.
  void settle_doubts() {
    auto target = servers_.target.session(database_);
    if (target.scalar("select count(*) from pgbaton.doubt where kind = 'unproven'") == "0") return;
    auto all = arguments("verify");
    all.insert(all.end(), {"--timeout", "20s", "--quiet"});
    const auto result = Tool::run(all);
    if (result.code == 6) fail("verify found differences:\n" + tail(result.out));
  }

  void stop() {
    tool_->kill(SIGTERM);
    const auto result = tool_->wait();
    ++report_.ends["stopped"];
    if (result.code != 0) unexplained(result);
  }

  void compare(const std::string& when) {
    testing::CompareOptions options;
    options.max_lines = 30;
    std::vector<const Table*> shown;
    for (const auto& line :
         testing::differences(servers_.source.conninfo(database_), servers_.target.conninfo(database_), options)) {
      fail(when + ": " + line);
      show_definition(line, shown);
    }
  }

  // A line begins with schema.table, unquoted.
  void show_definition(const std::string& line, std::vector<const Table*>& shown) {
    for (const auto& schema : schemas_)
      for (const auto& table : schema.tables) {
        auto name = table.name;
        std::erase(name, '"');
        auto plain = line;
        std::erase(plain, '"');
        const bool done = std::find(shown.begin(), shown.end(), &table) != shown.end();
        if (done || plain.rfind(name, 0) != 0) continue;
        shown.push_back(&table);
        std::cout << table.definition << std::endl;
      }
  }

  void finish() {
    for (const auto* command : {"sequences", "finish"}) {
      const auto result = Tool::run(arguments(command));
      if (result.code != 0) fail(fmt::format("{} ended with {}:\n{}", command, result.code, tail(result.err)));
    }
    compare("after finish");
    for (const auto& line : testing::leftovers(servers_.source.conninfo(database_)))
      fail("left on the source: " + line);
    for (const auto& line : testing::target_leftovers(servers_.target.conninfo(database_)))
      fail("left on the target: " + line);
  }

  void fail(const std::string& what) { report_.fail(fmt::format("{} (guard {}): {}", label_, guard_, what)); }

  Servers& servers_;
  Report& report_;
  Random random_;
  const std::string database_, label_;
  const bool grows_;  // columns are added meanwhile
  std::string guard_;
  Arguments options_;
  std::vector<Schema> schemas_;
  std::optional<Tool> tool_;
};

}  // namespace

Servers::Servers(int source_major, int target_major)
    : source({.major = source_major, .settings = {{"logical_decoding_work_mem", "64kB"}, {"fsync", "off"}}}),
      target({.major = target_major, .settings = {{"fsync", "off"}}}) {}

void Report::fail(const std::string& what) {
  failures.push_back(what);
  std::cout << "FAILED: " << what << std::endl;
}

void run_round(Servers& servers, Report& report, std::uint64_t seed, int number, int schemas) {
  Round(servers, report, seed, number, schemas).run();
}

}  // namespace pgbaton::schemas
