// Looks at the source's catalogs for what no stream reports: tables and partitions made since the copy, identities
// lost.
#pragma once
#include <pgbaton/snapshot/recheck.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "context.hpp"

namespace pgbaton::app {

class SourceWatch {
 public:
  // Looks once, and warns.
  SourceWatch(const Context& context, const state::Replica& replica);
  // Looks again and again until destroyed; warns of each table once.
  void start();

 private:
  void look() noexcept;
  void run(const std::stop_token& stop);

  const Context& context_;
  const state::Replica replica_;
  std::vector<state::TableState> tables_;
  snapshot::ChangeReport report_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: ends before what it uses
};

}  // namespace pgbaton::app
