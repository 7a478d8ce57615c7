#include "runtime.hpp"

#include <pgbaton/base/log.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <thread>

namespace pgbaton::app {

struct Runtime::Impl {
  std::stop_source stop;
  boost::asio::io_context loop;
  boost::asio::signal_set signals{loop, SIGINT, SIGTERM};
  std::jthread thread;

  void listen() {
    signals.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      const char* name = number == SIGINT ? "SIGINT" : "SIGTERM";
      if (stop.request_stop())
        log::info("{}: stopping in good order", name);
      else
        log::info("{}: already stopping", name);
      listen();
    });
  }
};

Runtime::Runtime() : impl_(std::make_unique<Impl>()) {
  std::signal(SIGPIPE, SIG_IGN);
  impl_->listen();
  impl_->thread = std::jthread([impl = impl_.get()] { impl->loop.run(); });
}

Runtime::~Runtime() {
  impl_->loop.stop();
  impl_->thread.join();
}

std::stop_token Runtime::stop_token() const {
  return impl_->stop.get_token();
}

}  // namespace pgbaton::app
