#include <pgbaton/stream/own_writer.hpp>

#include <pgbaton/base/error.hpp>
#include <pgbaton/base/log.hpp>

namespace pgbaton::stream {

std::unique_ptr<OwnWriter> OwnWriter::start(const StreamOptions& options, const std::string& replica,
                                            std::function<void(const Error&)> on_error) {
  std::unique_ptr<OwnWriter> writer;
  try {
    writer.reset(
        new OwnWriter(state::Lease::acquire(options.target, replica, false, Milliseconds(0)), std::move(on_error)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::held_elsewhere) throw;
    log::debug("{}", error.describe());
    return nullptr;
  }
  state::Store(writer->lease_.connection()).install();  // a newer version of the state, if it is due
  writer->lease_.begin_term();
  auto now = state::Store(writer->lease_.connection()).load_replica(replica);
  if (!now) throw Error(ErrorKind::usage, "the replica is gone").side(Side::target);
  log::info("no writer runs: streaming until the end of this command");
  writer->stream_ = std::make_unique<Stream>(options, std::move(*now), writer->lease_);
  writer->thread_ = std::jthread([raw = writer.get()](const std::stop_token& stop) { raw->run(stop); });
  return writer;
}

void OwnWriter::run(const std::stop_token& stop) noexcept {
  try {
    stream_->run(OpenEnded{}, stop);
  } catch (const Error& error) {
    error_ = std::current_exception();
    if (on_error_) on_error_(error);
  } catch (...) {
    error_ = std::current_exception();
  }
  ended_ = true;
}

OwnWriter::~OwnWriter() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

state::Lease& OwnWriter::end() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  check();
  return lease_;
}

void OwnWriter::check() const {
  if (ended_ && error_) std::rethrow_exception(error_);
}

}  // namespace pgbaton::stream
