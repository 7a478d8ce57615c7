// Statements sent without waiting, results read in order (libpq pipeline mode). COPY is not possible inside.
//
// send() queues and flushes as far as the socket takes; run() syncs, reads every result and hands each to the checker
// of its statement. The first failed statement aborts the rest up to the sync (the server skips them): run() then throws
// its error after draining, with the statement's `tag` reachable in failed_tag(). The destructor leaves pipeline mode.
#pragma once
#include <pgbaton/pg/connection.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace pgbaton::pg {

class Pipeline {
 public:
  explicit Pipeline(Connection& connection);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  using Check = std::function<void(const Result&)>;  // may throw; the pipeline is drained first
  // Parameters are copied by libpq. Empty name: unnamed statement from `sql`. `tag` is the caller's own number.
  void send(const std::string& sql, std::span<const Parameter> parameters, Check check = {}, std::uint64_t tag = 0);
  void prepare(const std::string& name, const std::string& sql);
  void send_prepared(const std::string& name, std::span<const Parameter> parameters, Check check = {},
                     std::uint64_t tag = 0);
  void run();
  std::size_t pending() const { return pending_.size(); }
  std::uint64_t failed_tag() const { return failed_tag_; }

 private:
  struct Entry {
    Check check;
    std::uint64_t tag;
  };
  void flush_some();
  Connection& connection_;
  std::vector<Entry> pending_;
  std::uint64_t failed_tag_ = 0;
};

}  // namespace pgbaton::pg
