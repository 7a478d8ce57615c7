// What the workers of one copy_tables() share.
#pragma once
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/pg/connection.hpp>

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>

#include "rate_limit.hpp"

namespace pgbaton::copy {

enum class TableOutcome { copied, rewritten, dropped };

struct PoolContext {
  const CopyOptions& options;
  const state::Replica& replica;
  const std::string& snapshot_id;
  Lsn boundary;
  CopyProgress& progress;
  const std::function<void(const CopyJob&)>& on_copied;
};

class Pool {
 public:
  Pool(const PoolContext& shared, std::vector<CopyJob> jobs);

  const PoolContext& context() const { return context_; }
  RateLimit& rate() { return rate_; }

  // The largest table left; nullopt when there is none or all are to end.
  std::optional<CopyJob> take();
  void put_back(CopyJob job);  // for a worker that still holds the snapshot
  void done(CopyJob job, TableOutcome outcome);
  // The first error wins and makes everybody end.
  void fail(std::exception_ptr error) noexcept;
  void halt() noexcept { halt_.request_stop(); }
  bool halted() const { return halt_.stop_requested(); }
  std::stop_token halt_token() const { return halt_.get_token(); }

  // After the workers have ended: throws the first error; what nobody took is unfinished.
  CopyResult result(const std::stop_token& stop);

 private:
  const PoolContext context_;
  RateLimit rate_;
  std::stop_source halt_;
  std::mutex mutex_;
  std::deque<CopyJob> queue_;
  CopyResult result_;
  std::exception_ptr error_;
};

}  // namespace pgbaton::copy
