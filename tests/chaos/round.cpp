#include "round.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <iostream>

#include "faults.hpp"
#include "support/compare.hpp"

namespace pgbaton::chaos {
namespace {

using testing::Arguments;

// Those that must not change between runs are here, too: a replica keeps its options for life.
Arguments random_options(Random& random) {
  Arguments options{"--jobs", std::to_string(pick(random, 1, 4)), "--index-jobs", std::to_string(pick(random, 1, 3))};
  static constexpr std::array kMemory{"1MB", "2MB", "256MB"};
  options.insert(options.end(), {"--memory", kMemory[static_cast<std::size_t>(pick(random, 0, 2))]});
  if (chance(random, 60)) options.insert(options.end(), {"--max-rate", fmt::format("{}MB", pick(random, 4, 20))});
  if (chance(random, 40)) options.insert(options.end(), {"--split-above", "1MB"});
  if (chance(random, 20)) options.insert(options.end(), {"--guard", "none"});
  static constexpr std::array kReaders{"auto", "peek", "walsender"};
  options.insert(options.end(), {"--reader", kReaders[static_cast<std::size_t>(pick(random, 0, 2))]});
  return options;
}

class Round {
 public:
  Round(Servers& servers, Report& report, std::uint64_t seed, int number)
      : servers_(servers),
        report_(report),
        random_(seed * 1'000'003 + static_cast<std::uint64_t>(number)),
        database_(fmt::format("chaos_{}", number)),
        scene_{servers, random_, replicas_, database_, std::nullopt, {}} {}

  void run() {
    set_up();
    {
      Workload load(servers_.source.conninfo(database_), random_());
      scene_.rest(200, 800);
      for (auto& replica : replicas_) replica->start();
      for (int i = 0, count = pick(random_, 6, 12); i < count; ++i) one_fault();
      end_long_transactions(scene_);
      load.stop();
      report_.committed += load.committed();
      for (const auto& error : load.errors()) report_.fail("the load met an error: " + error);
    }
    for (auto& replica : replicas_) judge(*replica);
    tear_down();
  }

 private:
  void set_up() {
    servers_.source.exec("create database " + database_);
    create_tables(servers_.source, database_);
    for (int i = 0, count = chance(random_, 25) ? 2 : 1; i < count; ++i) {
      const auto name = fmt::format("r{}", i);
      servers_.target.exec(fmt::format("create database {}_{}", database_, name));
      replicas_.push_back(std::make_unique<Replica>(servers_, report_, name, database_,
                                                    fmt::format("{}_{}", database_, name), random_options(random_)));
      std::cout << "  " << replicas_.back()->describe() << std::endl;
    }
  }

  void one_fault() {
    scene_.rest(50, 1500);
    for (auto& replica : replicas_) replica->supervise();
    const auto& fault = choose_fault(random_);
    std::cout << "  " << fault.name << std::endl;
    fault.strike(scene_);
    ++report_.faults[fault.name];
  }

  void judge(Replica& replica) {
    catch_up(replica);
    replica.note(Cause::asked);
    replica.tool().kill(SIGTERM);
    replica.expect_end({0});
    compare(replica, "after catching up");
    const bool finish = chance(random_, 60);
    const auto ended = replica.run(finish ? "finish" : "drop");
    if (ended.code != 0)
      report_.fail(fmt::format("{}: {} ended with {}:\n{}", replica.describe(), finish ? "finish" : "drop", ended.code,
                               ended.err));
    compare(replica, finish ? "after finish" : "after drop");
    require_clean(replica);
  }

  // With faults over, it must get there by itself; the harness only starts it again where a script would.
  void catch_up(Replica& replica) {
    const auto deadline = Clock::now() + std::chrono::seconds(240);
    for (;;) {
      replica.supervise();
      const auto waited = replica.run("wait", {"--for", "ready", "--timeout", "4s"});
      if (waited.code == 0 && replica.run("wait", {"--for", "caught-up", "--timeout", "20s"}).code == 0) return;
      if (Clock::now() > deadline)
        throw std::runtime_error(replica.describe() + " does not catch up: " + waited.err + "\n" +
                                 replica.tool().err());
    }
  }

  void compare(Replica& replica, const std::string& when) {
    // A type that was changed on the source and met no row since is still the old one on the target.
    const auto lines = testing::differences(servers_.source.conninfo(database_),
                                            servers_.target.conninfo(replica.target_database()), {.types = false});
    for (const auto& line : lines) report_.fail(fmt::format("{} {}: {}", replica.describe(), when, line));
  }

  void require_clean(Replica& replica) {
    const auto slot = "pgbaton_" + replica.name();
    for (int tries = 0;; ++tries) {
      std::vector<std::string> left;
      for (auto& line : testing::leftovers(servers_.source.conninfo(database_)))
        if (line.find(slot) != line.npos) left.push_back(line);
      for (auto& line : testing::target_leftovers(servers_.target.conninfo(replica.target_database())))
        left.push_back(line);
      if (left.empty()) return;
      if (tries < 50) {
        std::this_thread::sleep_for(Milliseconds(100));
        continue;
      }
      for (const auto& line : left) report_.fail(fmt::format("{} left behind: {}", replica.describe(), line));
      return;
    }
  }

  void tear_down() {
    for (auto& replica : replicas_)
      servers_.target.exec("drop database " + replica->target_database() + " with (force)");
    replicas_.clear();
    servers_.source.exec("drop database " + database_ + " with (force)");
  }

  Servers& servers_;
  Report& report_;
  Random random_;
  const std::string database_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  Scene scene_;
};

}  // namespace

void run_round(Servers& servers, Report& report, std::uint64_t seed, int number) {
  std::cout << fmt::format("round {} of seed {}", number, seed) << std::endl;
  Round(servers, report, seed, number).run();
  ++report.rounds;
}

}  // namespace pgbaton::chaos
