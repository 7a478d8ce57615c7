// The stream, driven by a command itself because nobody else does: a thread of this process is the writer for the time
// of the run, and is asked through pgbaton.request like any other.
#pragma once
#include <pgbaton/state/lease.hpp>
#include <pgbaton/stream/stream.hpp>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

namespace pgbaton::stream {

class OwnWriter {
 public:
  // Null when another process holds the lease. `on_error` is told what ended the stream, from its thread.
  static std::unique_ptr<OwnWriter> start(const StreamOptions& options, const std::string& replica,
                                          std::function<void(const Error&)> on_error);
  ~OwnWriter();  // ends the stream in good order
  OwnWriter(const OwnWriter&) = delete;

  // Throws what ended the stream, if something did.
  void check() const;
  Stream& stream() { return *stream_; }
  // Ends the stream in good order, and throws what had ended it before. The lease stays held, its term goes on.
  state::Lease& end();

 private:
  OwnWriter(state::Lease lease, std::function<void(const Error&)> on_error)
      : lease_(std::move(lease)), on_error_(std::move(on_error)) {}
  void run(const std::stop_token& stop) noexcept;

  state::Lease lease_;
  std::function<void(const Error&)> on_error_;
  std::unique_ptr<Stream> stream_;
  std::exception_ptr error_;
  std::atomic<bool> ended_{false};  // set after error_
  std::jthread thread_;
};

}  // namespace pgbaton::stream
