// The copy driven through the library: a plain exported snapshot stands for the slot's, an invented LSN for its
// boundary.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/copy/schema.hpp>
#include <pgbaton/pg/control.hpp>

#include <future>

#include "support/pair.hpp"

namespace pgbaton::testing {

// A session that holds an exported snapshot, as the holder does.
class Snapshot {
 public:
  explicit Snapshot(const Cluster& source) : session_(source.session()) {
    session_.exec("begin isolation level repeatable read read only");
    id_ = session_.scalar("select pg_export_snapshot()");
  }
  const std::string& id() const { return id_; }
  int pid() const { return session_.backend_pid(); }

 private:
  Session session_;
  std::string id_;
};

class TableCopyTest : public PairTest {
 protected:
  static constexpr Lsn kBoundary{0x1234567};

  pg::Endpoint source_endpoint() { return {Side::source, source().conninfo(), "t", "UTF8"}; }
  pg::Endpoint target_endpoint() { return {Side::target, target().conninfo(), "t", "UTF8"}; }
  std::unique_ptr<pg::Control> target_control() { return pg::open_control(target_endpoint(), "test"); }

  // Every table of the source as a job, recorded in the state schema of the target.
  std::vector<copy::CopyJob> record_jobs(const std::vector<QualifiedName>& excluded = {}) {
    auto control = pg::open_control(source_endpoint(), "test");
    std::vector<copy::CopyJob> jobs;
    std::vector<state::TableState> states;
    for (auto& table : catalog::load_tables(*control)) {
      if (std::find(excluded.begin(), excluded.end(), table.name) != excluded.end()) continue;
      state::TableState state;
      state.source_oid = table.oid;
      state.name = table.name;
      states.push_back(state);
      jobs.push_back({std::move(table), std::move(state)});
    }
    auto connection = target_control();
    state::Store store(*connection);
    store.install();
    replica_.name = "t";
    replica_.generation = "00000000-0000-0000-0000-000000000001";
    replica_.phase = state::Phase::copying;
    store.insert_replica(replica_, states);
    return jobs;
  }

  copy::SchemaArchive dump(const Snapshot& snapshot, const copy::SchemaOptions& options = {}) {
    return copy::SchemaArchive::dump(source_endpoint(), snapshot.id(), options, {});
  }
  copy::CopyOptions copy_options() {
    copy::CopyOptions options;
    options.source = source_endpoint();
    options.target = target_endpoint();
    options.jobs = 3;
    options.reconnect_for = Milliseconds(5000);
    return options;
  }
  copy::CopyResult copy_all(const Snapshot& snapshot, std::vector<copy::CopyJob> jobs, const copy::CopyOptions& options,
                            const std::stop_token& stop = {}) {
    return copy::copy_tables(
        options, replica_, std::move(jobs), snapshot.id(), kBoundary, progress_,
        [this](const copy::CopyJob& job) {
          const std::lock_guard lock(mutex_);
          copied_.push_back(job);
        },
        stop);
  }
  // Schema, rows and all that follows, with nothing unusual expected.
  copy::RestReport clone_all(const Snapshot& snapshot, const copy::SchemaOptions& options = {}, bool binary = true) {
    const auto archive = dump(snapshot, options);
    archive.restore_pre_data(target_endpoint(), {});
    auto settings = copy_options();
    settings.binary = binary;
    const auto result = copy_all(snapshot, record_jobs(options.excluded_tables), settings);
    EXPECT_TRUE(result.rewritten.empty() && result.dropped.empty() && result.unfinished.empty());
    copy::build_indexes(target_endpoint(), archive, copied_, {});
    return copy::restore_rest(target_endpoint(), archive, true, {});
  }

  state::Replica replica_;
  copy::CopyProgress progress_;
  std::mutex mutex_;
  std::vector<copy::CopyJob> copied_;
};

inline std::vector<std::string> names(const std::vector<copy::CopyJob>& jobs) {
  std::vector<std::string> result;
  for (const auto& job : jobs) result.push_back(job.table.name.name);
  return result;
}

}  // namespace pgbaton::testing
