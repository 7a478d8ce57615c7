// The process: signals become a stop token. SIGTERM and SIGINT ask for an orderly end (finish the batch, commit,
// confirm); a second one is only logged, because whatever is still going on has a deadline of its own, and kill -9
// loses nothing. SIGPIPE is ignored: a log reader that went away must not end a replica.
#pragma once
#include <memory>
#include <stop_token>

namespace pgbaton::app {

class Runtime {
 public:
  Runtime();
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  std::stop_token stop_token() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pgbaton::app
