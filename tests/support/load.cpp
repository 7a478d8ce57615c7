#include "load.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace pgbaton::testing {
namespace {

std::string pgbench_path() {
  const std::string debian = "/usr/lib/postgresql/15/bin/pgbench";
  return std::filesystem::exists(debian) ? debian : "pgbench";
}

}  // namespace

Load::Load(const std::string& conninfo, int threads, Work work) : work_(std::move(work)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back(&Load::run, this, conninfo, i);
}

Load::Load(const std::string& conninfo, int threads, const std::string& sql)
    : Load(conninfo, threads, [sql](Turn& turn) { turn.session.exec(sql); }) {}

void Load::run(const std::string& conninfo, int thread) {
  try {
    Session session(conninfo);
    Turn turn{session, thread, 0};
    for (; !stop_; ++turn.round) {
      work_(turn);
      ++done_;
    }
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    errors_.emplace_back(error.what());
  }
}

long long Load::stop() {
  stop_ = true;
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  return done_;
}

bool Load::wait_done(long long units, Milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (done_ < units) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(Milliseconds(5));
  }
  return true;
}

std::vector<std::string> Load::errors() {
  const std::lock_guard lock(mutex_);
  return errors_;
}

void Pgbench::initialize(const std::string& conninfo, int scale) {
  run_checked({.arguments = {pgbench_path(), "-i", "-q", "-s", std::to_string(scale), conninfo}},
              Milliseconds(180'000));
}

Pgbench::Pgbench(const std::string& conninfo, const std::vector<std::string>& options, const std::string& script)
    : directory_(make_run_directory("pgbench")) {
  ProcessOptions process{.arguments = {pgbench_path(), "-n"}};
  process.arguments.insert(process.arguments.end(), options.begin(), options.end());
  if (!script.empty()) {
    std::ofstream(directory_ + "/script.sql") << script;
    process.arguments.insert(process.arguments.end(), {"-f", directory_ + "/script.sql"});
  }
  process.arguments.push_back(conninfo);
  process.stdout_file = directory_ + "/out";
  process.stderr_file = directory_ + "/err";
  process.directory = directory_;
  process_ = Process(process);
}

std::string Pgbench::wait(Milliseconds timeout) {
  const auto code = process_.wait(timeout);
  const auto text = read_file(directory_ + "/out") + read_file(directory_ + "/err");
  if (code != 0) throw std::runtime_error("pgbench ended with " + std::to_string(code.value_or(-1)) + "\n" + text);
  return text;
}

}  // namespace pgbaton::testing
