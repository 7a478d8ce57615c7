#include "faults.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <thread>

namespace pgbaton::chaos {
namespace {

using testing::Cluster;
using testing::StopMode;

void nothing(Scene& scene) {
  scene.rest(500, 1500);
}

void kill_tool(Scene& scene) {
  auto& replica = scene.any();
  if (replica.running()) {
    replica.tool().kill_hard();
    replica.note(Cause::asked);
    replica.start();
  }
}

void stop_for_a_while(Scene& scene) {
  auto& replica = scene.any();
  if (!replica.running()) return;
  replica.tool().kill(SIGSTOP);
  scene.rest(300, 3000);
  replica.tool().kill(SIGCONT);
  replica.note(Cause::lost_connection);  // a server may have given it up
}

// Whether the process has come to the first line of main, which takes hold of SIGTERM (proc_pid_status(5)). Before it,
// while the loader works, the signal ends any program as it likes; a sanitized one is there for seconds.
bool listens(testing::Tool& tool) {
  std::ifstream status("/proc/" + std::to_string(tool.pid()) + "/status");
  constexpr std::uint64_t kBit = std::uint64_t{1} << (SIGTERM - 1);
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigBlk:") && !line.starts_with("SigCgt:")) continue;
    if ((std::stoull(line.substr(7), nullptr, 16) & kBit) != 0) return true;
  }
  return false;
}

void interrupt(Scene& scene) {
  auto& replica = scene.any();
  while (replica.running() && !listens(replica.tool())) std::this_thread::sleep_for(testing::Milliseconds(5));
  if (!replica.running()) return;
  replica.note(Cause::asked);
  replica.tool().kill(SIGTERM);
  replica.expect_end({0, 1});
  replica.start();
}

// The stopped one wakes up when the other has taken its place: it must end, and must not have disturbed anything.
void take_over(Scene& scene) {
  auto& replica = scene.any();
  if (!replica.running()) return;
  replica.tool().kill(SIGSTOP);
  auto old = replica.exchange(replica.launch({"--take-over"}));
  replica.note(Cause::taken_over);
  scene.rest(500, 3000);
  old.kill(SIGCONT);
  const auto result = old.wait(testing::Milliseconds(60'000));
  // 0: it was about to begin and found that the lease is held; the process that is the replica's now goes on.
  if (result.code != 7 && result.code != 1)
    replica.report().fail(fmt::format("{}: a process that was taken over ended with {}:\n{}", replica.describe(),
                                      result.code,
                                      result.err.substr(result.err.size() > 2000 ? result.err.size() - 2000 : 0)));
}

void restart(Scene& scene, Cluster& cluster, bool source) {
  scene.note(Cause::lost_connection);
  const int way = pick(scene.random, 0, 2);
  if (source) scene.long_open.reset();
  if (way == 0) {
    cluster.stop(StopMode::immediate);
  } else if (way == 1) {
    cluster.stop(StopMode::fast);
  } else {
    cluster.crash();
  }
  scene.rest(0, 1500);
  cluster.start();
  scene.note(Cause::lost_connection);
}
void restart_source(Scene& scene) {
  restart(scene, scene.servers.source, true);
}
void restart_target(Scene& scene) {
  restart(scene, scene.servers.target, false);
}

// Some of the tool's own sessions; which ones, chance decides.
void terminate(Scene& scene, Cluster& cluster) {
  scene.note(Cause::lost_connection);
  auto session = cluster.session();
  const auto sessions = session.query(
      "select pid, application_name from pg_stat_activity where application_name like 'pgbaton%' order by "
      "application_name, pid");
  for (int i = 0, count = pick(scene.random, 1, 2); i < count && !sessions.empty(); ++i) {
    const auto& row = sessions[static_cast<std::size_t>(pick(scene.random, 0, static_cast<int>(sessions.size()) - 1))];
    std::cout << "    terminated " << *row[1] << std::endl;
    session.exec("select pg_terminate_backend(" + *row[0] + ")");
  }
}
void terminate_on_source(Scene& scene) {
  terminate(scene, scene.servers.source);
}
void terminate_on_target(Scene& scene) {
  terminate(scene, scene.servers.target);
}

void cut_source(Scene& scene) {
  scene.note(Cause::lost_connection);
  scene.servers.source_proxy.cut();
}
void cut_target(Scene& scene) {
  scene.note(Cause::lost_connection);
  scene.servers.target_proxy.cut();
}

// On the source, as an administrator does it: with a timeout, because a copy may hold the table.
bool ddl(Scene& scene, const std::string& statement) {
  try {
    scene.servers.source.exec("set lock_timeout = '2s'; " + statement, scene.database);
    return true;
  } catch (const testing::SqlError& error) {
    if (error.sqlstate != "55P03" && error.sqlstate != "40P01" && !error.sqlstate.empty()) throw;
    return false;
  }
}
void truncate(Scene& scene) {
  ddl(scene, chance(scene.random, 50) ? "truncate emptied restart identity" : "truncate steps, bulk");
}
void vacuum_full(Scene& scene) {
  static constexpr std::array kTables{"docs", "pgbench_accounts", "hello", "bulk"};
  const auto* table = kTables[static_cast<std::size_t>(pick(scene.random, 0, 3))];
  try {
    auto session = scene.servers.source.session(scene.database);
    session.exec("set lock_timeout = '2s'");
    session.exec(std::string("vacuum full ") + table);
  } catch (const testing::SqlError& error) {
    if (error.sqlstate != "55P03" && error.sqlstate != "40P01" && !error.sqlstate.empty()) throw;
  }
}
void alter_type(Scene& scene) {
  scene.note(Cause::altered);
  ddl(scene, "alter table altered alter n type bigint");
}

void open_long_transaction(Scene& scene) {
  if (scene.long_open) return;
  scene.note(Cause::blocked_slot);
  scene.long_open.emplace(scene.servers.source.session(scene.database));
  scene.long_open->exec(
      "begin; update hello set greeting = 'late' where id between 100 and 110; insert into steps (v) "
      "select -i from generate_series(1, 200) i");
}
void prepare_transaction(Scene& scene) {
  if (scene.prepared.size() > 1) return;
  scene.note(Cause::blocked_slot);
  const auto gid = fmt::format("{}_{}", scene.database, scene.random() % 1'000'000);
  scene.servers.source.exec("begin; insert into bag values (7, 'prepared'); update region set v = v + 100 where id = " +
                                std::to_string(pick(scene.random, 1, 900)) + "; prepare transaction '" + gid + "'",
                            scene.database);
  scene.prepared.push_back(gid);
}
void end_transactions(Scene& scene) {
  end_long_transactions(scene);
}

// Whatever state it is in: everything of the replica goes, the rows too, and it begins again.
void drop_and_clone_again(Scene& scene) {
  auto& replica = scene.any();
  if (replica.running()) replica.tool().kill_hard();
  testing::ToolResult dropped;
  for (int tries = 0; tries < 10; ++tries) {
    dropped = replica.run("drop");
    if (dropped.code == 0) break;
    scene.rest(300, 600);
  }
  if (dropped.code != 0)
    return replica.report().fail(
        fmt::format("{}: drop ended with {}:\n{}", replica.describe(), dropped.code, dropped.err));
  scene.servers.target.exec("drop database " + replica.target_database() + " with (force)");
  scene.servers.target.exec("create database " + replica.target_database());
  replica.note(Cause::asked);
  replica.start();
}

constexpr std::array<Fault, 18> kFaults{{
    {"pause", 4, nothing},
    {"kill", 8, kill_tool},
    {"sigstop", 4, stop_for_a_while},
    {"sigterm", 3, interrupt},
    {"take_over", 3, take_over},
    {"restart_source", 4, restart_source},
    {"restart_target", 4, restart_target},
    {"terminate_source", 6, terminate_on_source},
    {"terminate_target", 6, terminate_on_target},
    {"cut_source", 4, cut_source},
    {"cut_target", 4, cut_target},
    {"truncate", 3, truncate},
    {"vacuum_full", 3, vacuum_full},
    {"alter_type", 1, alter_type},
    {"long_transaction", 2, open_long_transaction},
    {"prepared_transaction", 2, prepare_transaction},
    {"end_transactions", 3, end_transactions},
    {"drop_and_clone", 2, drop_and_clone_again},
}};
}  // namespace

std::span<const Fault> all_faults() {
  return kFaults;
}

const Fault& choose_fault(Random& random) {
  int total = 0;
  for (const auto& fault : kFaults) total += fault.weight;
  int left = pick(random, 1, total);
  for (const auto& fault : kFaults) {
    left -= fault.weight;
    if (left <= 0) return fault;
  }
  return kFaults.front();
}

void end_long_transactions(Scene& scene) {
  if (scene.long_open) {
    try {
      scene.long_open->exec(chance(scene.random, 50) ? "commit" : "rollback");
    } catch (const testing::SqlError&) {  // its server was restarted
    }
    scene.long_open.reset();
  }
  for (const auto& gid : scene.prepared)
    scene.servers.source.exec(fmt::format("{} prepared '{}'", chance(scene.random, 60) ? "commit" : "rollback", gid),
                              scene.database);
  scene.prepared.clear();
}

}  // namespace pgbaton::chaos
