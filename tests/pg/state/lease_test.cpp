// The writer's lease: one holder, freed by the server, taken over, fenced by the epoch.
#include <pgbaton/base/error.hpp>
#include <pgbaton/state/lease.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/cluster.hpp"

namespace pgbaton::state {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LeaseTest : public ::testing::Test {
 protected:
  LeaseTest() { store_.install(); }
  pg::Endpoint endpoint(const std::string& name = "r") const {
    pg::Endpoint result;
    result.side = Side::target;
    result.conninfo = target_.conninfo();
    result.replica_name = name;
    return result;
  }
  Lease acquire(bool take_over = false, Milliseconds patience = Milliseconds(300)) {
    return Lease::acquire(endpoint(), "r", take_over, patience);
  }
  void insert_row() {
    Replica r;
    r.name = "r";
    r.generation = "g";
    r.phase = Phase::creating;
    store_.insert_replica(r, {});
  }
  // Ends a backend and waits for it.
  void end_backend(int pid) {
    target_.exec("select pg_terminate_backend(" + std::to_string(pid) + ")");
    ASSERT_TRUE(target_.wait_until("select count(*) from pg_stat_activity where pid = " + std::to_string(pid), "0"));
  }
  static int backend_of(Lease& lease) { return lease.connection().backendpid(); }

  testing::Cluster target_;
  std::unique_ptr<pg::Control> control_ = pg::open_control(endpoint("observer"), "test");
  Store store_{*control_};
};

TEST_F(LeaseTest, RequestsOfADeadWriterAreClosedByTheNext) {
  auto first = acquire();
  insert_row();
  first.begin_term();
  const auto taken = store_.insert_request("r", "verify", "");
  ASSERT_EQ(store_.take_requests(*store_.load_replica("r")).size(), 1u);
  const auto stop = store_.insert_request("r", "stop", ""), open = store_.insert_request("r", "verify", "");
  end_backend(backend_of(first));
  auto second = acquire();
  second.begin_term();
  EXPECT_EQ(store_.request_state(taken), "done") << "its requester would wait for ever";
  EXPECT_THAT(target_.scalar("select result from pgbaton.request where id = " + std::to_string(taken)),
              HasSubstr("has ended"));
  EXPECT_EQ(store_.request_state(stop), "done") << "it was meant for the writer before";
  EXPECT_EQ(store_.request_state(open), "open");
}

TEST_F(LeaseTest, SecondStartIsRefusedNamingTheHolder) {
  auto first = acquire();
  EXPECT_TRUE(Lease::held(*control_, "r"));
  EXPECT_FALSE(Lease::held(*control_, "s"));
  auto other_replica = Lease::acquire(endpoint("s"), "s", false, Milliseconds(0));
  auto message = [&] {
    try {
      acquire();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::held_elsewhere);
      EXPECT_THAT(error.hint(), HasSubstr("--take-over"));
      return error.describe();
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(), HasSubstr("backend pid " + std::to_string(backend_of(first))));
  insert_row();
  first.begin_term();
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  EXPECT_THAT(message(), AllOf(HasSubstr(std::string("host ") + host), HasSubstr("pid " + std::to_string(getpid())),
                               HasSubstr("since 2")));
}

TEST_F(LeaseTest, WaitsForAHolderThatLeaves) {
  auto first = std::make_unique<Lease>(acquire());
  std::thread leaver([&] {
    std::this_thread::sleep_for(Milliseconds(300));
    first.reset();
  });
  auto start = Clock::now();
  EXPECT_NO_THROW(acquire(false, Milliseconds(5000)));
  EXPECT_LT(Clock::now() - start, Milliseconds(3000));
  leaver.join();
}

TEST_F(LeaseTest, DeathOfTheHolderFreesIt) {
  auto first = acquire();
  end_backend(backend_of(first));
  EXPECT_FALSE(Lease::held(*control_, "r"));
  EXPECT_NO_THROW(acquire());
}

TEST_F(LeaseTest, TakeOverEndsTheWritersSessionsAndNoOthers) {
  auto first = acquire();
  auto apply = pg::open_control(endpoint(), "apply"), beside = pg::open_control(endpoint(), "verify");
  auto other = pg::open_control(endpoint("r2"), "apply");
  insert_row();
  auto first_epoch = first.begin_term();
  auto second = acquire(true, Milliseconds(5000));
  EXPECT_EQ(second.begin_term(), first_epoch + 1);
  EXPECT_TRUE(
      target_.wait_until("select count(*) from pg_stat_activity where application_name like 'pgbaton/r/%'", "2"));
  EXPECT_THROW(pqxx::nontransaction(*apply).exec("select 1"), pqxx::failure);
  for (auto* spared : {&other, &beside}) EXPECT_NO_THROW(pqxx::nontransaction(**spared).exec("select 1"));
  try {
    first.check();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::held_elsewhere) << error.describe();
  }
  EXPECT_THROW(first.renew(), Error);
  EXPECT_NO_THROW(second.check());
}

TEST_F(LeaseTest, ATermEndsWhatAWriterLeftAndNoCommandBesideIt) {
  insert_row();
  auto left = pg::open_control(endpoint(), "copy-1"), beside = pg::open_control(endpoint(), "switchover");
  pqxx::work of_writer(*left), of_command(*beside);
  for (auto* each : {&of_writer, &of_command}) each->exec("select txid_current()");
  acquire().begin_term();
  EXPECT_THROW(of_writer.exec("select 1"), pqxx::broken_connection);
  EXPECT_NO_THROW(of_command.exec("select 1"));
  of_command.commit();
}

TEST_F(LeaseTest, TakeOverOfAFreeReplicaEndsNothing) {
  auto mine = pg::open_control(endpoint(), "control");
  auto lease = acquire(true);
  EXPECT_NO_THROW(pqxx::nontransaction(*mine).exec("select 1"));
}

TEST_F(LeaseTest, TermWritesEpochIntoProgress) {
  insert_row();
  target_.exec(
      "insert into pgbaton.progress (replica, generation, applier_number, applier_count, epoch, applied_lsn) "
      "values ('r', 'g', 0, 2, 0, '0/1'), ('r', 'g', 1, 2, 0, '0/1'), ('s', 'g', 0, 1, 0, '0/1')");
  auto lease = acquire();
  EXPECT_EQ(lease.begin_term(), 1);
  EXPECT_EQ(lease.epoch(), 1);
  EXPECT_EQ(target_.scalar("select string_agg(replica || epoch, ',' order by replica, applier_number) "
                           "from pgbaton.progress"),
            "r1,r1,s0");
  EXPECT_EQ(store_.load_replica("r")->writer_backend_pid, backend_of(lease));
}

TEST_F(LeaseTest, TermWithoutReplicaIsRefused) {
  auto lease = acquire();
  EXPECT_THROW(lease.begin_term(), Error);
}

TEST_F(LeaseTest, TermEndsWhatADeadWriterLeftBehind) {
  insert_row();
  auto leftover = pg::open_control(endpoint(), "copy-1");
  pqxx::work transaction(*leftover);
  transaction.exec("create table public.half (a int)");
  auto reader = pg::open_control(endpoint(), "status");
  pqxx::work reading(*reader);
  reading.exec("select 1");
  auto lease = acquire();
  lease.begin_term();
  EXPECT_THROW(transaction.commit(), std::exception);
  EXPECT_NO_THROW(reading.exec("select 1"));
}

TEST_F(LeaseTest, LostConnectionIsRetryAndRenewed) {
  insert_row();
  auto lease = acquire();
  auto epoch = lease.begin_term();
  end_backend(backend_of(lease));
  try {
    lease.check();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::failed) << error.describe();
    EXPECT_EQ(error.action(), Action::retry);
  }
  lease.renew();
  lease.check();
  EXPECT_TRUE(Lease::held(*control_, "r"));
  EXPECT_EQ(store_.load_replica("r")->epoch, epoch);
  EXPECT_EQ(store_.load_replica("r")->writer_backend_pid, backend_of(lease));
}

}  // namespace
}  // namespace pgbaton::state
