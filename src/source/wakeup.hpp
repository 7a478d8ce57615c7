// Ends a poll() from another thread.
#pragma once
#include <sys/eventfd.h>
#include <unistd.h>
#include <pgbaton/base/error.hpp>

#include <cstdint>

namespace pgbaton::source {

class Wakeup {
 public:
  Wakeup() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) throw Error(ErrorKind::failed, "no eventfd: too many open files");
  }
  ~Wakeup() { ::close(fd_); }
  Wakeup(const Wakeup&) = delete;
  Wakeup& operator=(const Wakeup&) = delete;

  int fd() const { return fd_; }
  void wake() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto put = ::write(fd_, &one, sizeof one);
  }
  void clear() noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(fd_, &count, sizeof count);
  }

 private:
  int fd_;
};

}  // namespace pgbaton::source
