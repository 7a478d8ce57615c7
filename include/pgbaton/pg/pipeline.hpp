// Statements sent without waiting, results read in order (libpq pipeline mode). COPY is not possible inside.
//
// send() queues; when much is queued it writes and takes the results that are there, so that neither side blocks the
// other. run() syncs and reads the rest. Each result is handed to the checker of its statement, in order, by send() or
// run(); nothing but run() throws a failure. The first failed statement aborts the rest up to the sync (the server
// skips them): run() then throws its error after draining, with the statement's `tag` reachable in failed_tag(). The
// destructor leaves pipeline mode.
#pragma once
#include <pgbaton/pg/connection.hpp>

#include <cstdint>
#include <exception>
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
  // With some parameters in the server's binary form: those whose format is 1 (0: text).
  void send(const std::string& sql, std::span<const Parameter> parameters, std::span<const int> formats, Check check,
            std::uint64_t tag = 0);
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
  void fill(std::span<const Parameter> parameters, std::span<const int> formats = {});
  void sent(int outcome, std::size_t bytes, Entry entry);
  bool flush_some();
  void consume();
  bool take_results();
  void take(const Result& result);
  void drain(bool checking);

  Connection& connection_;
  std::vector<Entry> pending_;  // sent since the last run(), in order
  std::size_t answered_ = 0;    // how many of them have their result
  bool between_ = false;        // libpq's NULL behind a statement's result has been read
  bool checking_ = true;        // false while a destructor drains
  std::size_t unflushed_ = 0;   // bytes handed to libpq since the last flush
  std::string scratch_;         // the parameters of one statement, each with a zero byte behind it
  std::vector<const char*> values_;
  std::vector<int> lengths_;
  std::exception_ptr failure_;  // the first failure, held until the pipeline is drained
  std::uint64_t failed_tag_ = 0;
};

}  // namespace pgbaton::pg
