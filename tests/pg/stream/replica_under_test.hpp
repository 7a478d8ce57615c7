// A replica made by the executable and driven through the library: what the stream's own tests start from.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/pg/control.hpp>
#include <pgbaton/state/lease.hpp>
#include <pgbaton/stream/stream.hpp>

#include "support/pair.hpp"

namespace pgbaton::testing {

class StreamTest : public PairTest {
 protected:
  pg::Endpoint source_endpoint() { return {Side::source, source().conninfo(), "default", "UTF8"}; }
  pg::Endpoint target_endpoint() { return {Side::target, target().conninfo(), "default", "UTF8"}; }

  // Takes the lease and begins a term, as the commands do.
  void take_lease() {
    lease_ = std::make_unique<state::Lease>(state::Lease::acquire(target_endpoint(), "default", false));
    lease_->begin_term();
    replica_ = state::Store(lease_->connection()).load_replica("default").value();
  }
  stream::StreamOptions options() {
    stream::StreamOptions options;
    options.source = source_endpoint();
    options.target = target_endpoint();
    return options;
  }

  std::unique_ptr<state::Lease> lease_;
  state::Replica replica_;
};

}  // namespace pgbaton::testing
