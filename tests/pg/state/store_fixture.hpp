// A target, a Store on it, and replicas to put into it.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/lease.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/cluster.hpp"

namespace pgbaton::state {

class StoreFixture : public ::testing::Test {
 protected:
  pg::Endpoint endpoint(const std::string& name = "r") const {
    pg::Endpoint result;
    result.side = Side::target;
    result.conninfo = target_.conninfo();
    result.replica_name = name;
    return result;
  }
  Replica replica(const std::string& name = "r") const {
    Replica r;
    r.name = name;
    r.generation = "6f1c5f0e-0000-4000-8000-000000000001";
    r.source_system_id = 18'000'000'000'000'000'001u;  // above the range of bigint
    r.source_timeline = 3;
    r.source_database = "app";
    r.slot = r.publication = "pgbaton_" + name;
    r.publication_inserts = "pgbaton_" + name + "__ins";
    r.phase = Phase::creating;
    r.options = R"({"b": 1, "a": "it's \"quoted\""})";
    return r;
  }
  std::vector<TableState> two_tables() const {
    TableState a;
    a.source_oid = 4'000'000'000u;
    a.name = {"Sp a.C", "a\"b'c"};
    a.bytes_total = 77;
    TableState b;
    b.source_oid = 2;
    b.name = {"public", "b"};
    b.guard = GuardKind::none;
    b.guarded = b.inserts_only = true;
    b.note = "no key\\";
    return {a, b};
  }
  // Inserted, with a term begun.
  Replica begun(Store& store, Lease& lease, const std::string& name = "r") const {
    Replica r = replica(name);
    store.insert_replica(r, two_tables());
    r.epoch = lease.begin_term();
    return r;
  }
  template <typename Work>
  void expect_error(ErrorKind kind, const std::string& text, Work work) {
    try {
      work();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.describe();
      EXPECT_THAT(error.describe(), ::testing::HasSubstr(text));
      EXPECT_THAT(error.hint(), ::testing::Not(::testing::IsEmpty()));
    }
  }

  testing::Cluster target_;
  std::unique_ptr<pg::Control> control_ = pg::open_control(endpoint(), "test");
  Store store_{*control_};
};

}  // namespace pgbaton::state
