#include <pgbaton/state/lease.hpp>
#include <pgbaton/state/stop_writer.hpp>

namespace pgbaton::state {

bool stop_writer(Store& store, const std::string& replica, std::string_view payload, Deadline deadline,
                 const std::stop_token& stop) {
  constexpr Milliseconds kPoll{50};
  auto request = store.insert_request(replica, "stop", payload);
  bool held = true;
  while ((held = Lease::held(store.connection(), replica)) && !deadline.passed() && sleep_for(kPoll, stop)) {
    // One that was about to begin its term has closed it, as one that was meant for a writer before it.
    if (store.request_state(request) != "done") continue;
    store.delete_request(request);
    request = store.insert_request(replica, "stop", payload);
  }
  store.delete_request(request);
  return !held;
}

}  // namespace pgbaton::state
