#include "clients.hpp"

#include <optional>

namespace pgbaton::testing {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Clients::Clients(std::vector<std::string> servers, int writers, int per_second, const std::string& file,
                 long long first)
    : servers_(std::move(servers)),
      interval_(std::chrono::microseconds(1'000'000LL * writers / per_second)),
      first_(first),
      out_(file, std::ios::trunc) {
  for (int i = 0; i < writers; ++i) threads_.emplace_back([this, i] { write(i); });
}

void Clients::stop() {
  stop_ = true;
  for (auto& thread : threads_)
    if (thread.joinable()) thread.join();
}

void Clients::write(int writer) {
  std::optional<Session> session;
  std::size_t at = 0;
  auto last = Clock::now();
  for (long long n = 1; !stop_;) {
    const auto key = std::to_string(writer * 1'000'000'000LL + first_ + n);
    try {
      if (!session) session.emplace(servers_[at]);
      session->exec("insert into account (id, n) values (" + key + ", 0)");
    } catch (const std::exception& error) {
      // Whether it was committed is not known when the connection broke: the key is never used again.
      std::lock_guard lock(mutex_);
      refusals_.push_back(error.what());
      session.reset();
      at = (at + 1) % servers_.size();
      ++n;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    {
      std::lock_guard lock(mutex_);
      out_ << key << '\n' << std::flush;
    }
    const auto now = Clock::now();
    const auto pause = std::chrono::duration_cast<Milliseconds>(now - last).count();
    for (auto seen = longest_.load(); pause > seen && !longest_.compare_exchange_weak(seen, pause);) {
    }
    last = now;
    ++acknowledged_;
    ++n;
    std::this_thread::sleep_for(interval_);
  }
}

bool Clients::wait_acknowledged(long long more, Milliseconds timeout) const {
  const auto goal = acknowledged_ + more;
  const auto deadline = Clock::now() + timeout;
  while (acknowledged_ < goal && Clock::now() < deadline) std::this_thread::sleep_for(Milliseconds(10));
  return acknowledged_ >= goal;
}

std::vector<std::string> Clients::refusals() {
  std::lock_guard lock(mutex_);
  return refusals_;
}

// The file first: what is acknowledged after it was read may be missing in neither.
std::string Clients::lost(const std::string& file, Cluster& server) {
  std::vector<std::string> keys;
  std::ifstream in(file);
  for (std::string key; std::getline(in, key);) keys.push_back(key);
  std::set<std::string> there;
  for (const auto& row : server.query("select id::text from account")) there.insert(row.at(0).value_or(""));
  std::string text;
  long long missing = 0;
  for (const auto& key : keys)
    if (!there.contains(key) && ++missing <= 5) text += " " + key;
  return missing == 0 ? ""
                      : std::to_string(missing) + " of " + std::to_string(keys.size()) + " acknowledged rows:" + text;
}

bool is_frozen(const Tool& tool) {
  for (int i = 0; i < 2400; ++i) {
    std::string state;
    std::ifstream stat("/proc/" + std::to_string(tool.pid()) + "/stat");
    stat >> state >> state >> state;
    if (state == "T") return true;
    if (state == "Z") return false;
    std::this_thread::sleep_for(Milliseconds(50));
  }
  return false;
}

bool takes_writes(Cluster& server) {
  try {
    server.exec("insert into account (id, n) values (-1, 0); delete from account where id = -1");
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void expect_only(Cluster& writable, Cluster& closed, const std::string& after) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + Milliseconds(5'000);
  while ((!takes_writes(writable) || takes_writes(closed)) && Clock::now() < deadline)
    std::this_thread::sleep_for(Milliseconds(20));
  EXPECT_TRUE(takes_writes(writable)) << after;
  EXPECT_FALSE(takes_writes(closed)) << after;
}

}  // namespace pgbaton::testing
