#include <fmt/format.h>
#include <pgbaton/catalog/table.hpp>

#include <algorithm>

#include "queries.hpp"

namespace pgbaton::catalog {
namespace {

// One statement reads so many sequences: few round trips, and a parse tree of harmless depth.
constexpr std::size_t kSequencesPerQuery = 200;
// A sequence may be dropped between the list and its reading; the list is then read again.
constexpr int kAttempts = 5;

std::vector<Sequence> list_sequences(pqxx::transaction_base& transaction) {
  std::vector<Sequence> sequences;
  for (const auto& row : transaction.exec(sequences_query())) {
    Sequence sequence;
    sequence.name = {row["schema"].as<std::string>(), row["name"].as<std::string>()};
    sequence.increment = row["increment"].as<std::int64_t>();
    sequence.minimum = row["minimum"].as<std::int64_t>();
    sequence.maximum = row["maximum"].as<std::int64_t>();
    sequence.cycles = row["cycles"].as<bool>();
    sequence.settable = row["settable"].as<bool>();
    if (!row["readable"].as<bool>()) {
      throw Error(ErrorKind::preflight, fmt::format("the role may not read sequence {}", sequence.name.quoted()))
          .sqlstate("42501")
          .hint(fmt::format("GRANT SELECT ON SEQUENCE {} to this role.", sequence.name.quoted()));
    }
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

void read_values(pqxx::transaction_base& transaction, std::vector<Sequence>& sequences) {
  for (std::size_t begin = 0; begin < sequences.size(); begin += kSequencesPerQuery) {
    const auto end = std::min(sequences.size(), begin + kSequencesPerQuery);
    std::string sql;
    for (auto i = begin; i < end; ++i) {
      sql += fmt::format("{}select {} as at, last_value, is_called from {}", sql.empty() ? "" : " union all ", i,
                         sequences[i].name.quoted());
    }
    for (const auto& row : transaction.exec_n(end - begin, sql)) {
      auto& sequence = sequences.at(row["at"].as<std::size_t>());
      sequence.last_value = row["last_value"].as<std::int64_t>();
      sequence.is_called = row["is_called"].as<bool>();
    }
  }
}

}  // namespace

std::vector<Sequence> load_sequences(pg::Control& connection, Side side) {
  return pg::control(side, "reading the sequences", [&] {
    for (int attempt = 1;; ++attempt) {
      try {
        pqxx::nontransaction transaction(connection);
        auto sequences = list_sequences(transaction);
        read_values(transaction, sequences);
        return sequences;
      } catch (const pqxx::sql_error& error) {
        if (pg::sqlstate_of(error) != "42P01" || attempt == kAttempts) throw;
      } catch (Error& error) {
        throw error.side(side);
      }
    }
  });
}

}  // namespace pgbaton::catalog
