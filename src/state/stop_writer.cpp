#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/stop_writer.hpp>

#include <utility>

namespace pgbaton::state {

bool stop_writer(Store& store, const std::string& replica, std::string_view payload, Deadline deadline,
                 const std::stop_token& stop) {
  constexpr Milliseconds kPoll{50};
  auto request = store.insert_request(replica, "stop", payload);
  bool held = true;
  while ((held = Lease::held(store.connection(), replica)) && !deadline.passed() && sleep_for(kPoll, stop)) {
    // One that was about to begin its term has closed it, as one that was meant for a writer before it. There is always
    // one: a writer that stops looks whether it was a switchover that wanted it.
    if (store.request_state(request) != "done") continue;
    const auto next = store.insert_request(replica, "stop", payload);
    store.delete_request(std::exchange(request, next));
  }
  store.delete_request(request);
  return !held;
}

}  // namespace pgbaton::state
