#include <pgbaton/base/error.hpp>
#include <pgbaton/state/store.hpp>

#include <array>

namespace pgbaton::state {

namespace {

// The inverse of to_string() over all values; what the table's CHECK constraint lets in and this tool does not know can
// only come from a newer tool.
template <typename Enum, std::size_t N>
Enum parse(std::string_view text, const std::array<Enum, N>& values, std::string_view what) {
  for (Enum value : values)
    if (to_string(value) == text) return value;
  throw Error(ErrorKind::usage, "unknown " + std::string(what) + " '" + std::string(text) + "' in schema pgbaton")
      .side(Side::target)
      .hint("Use the version of pgbaton that wrote it, or a newer one.");
}

}  // namespace

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::none:
      return "none";
    case Phase::creating:
      return "creating";
    case Phase::copying:
      return "copying";
    case Phase::indexing:
      return "indexing";
    case Phase::streaming:
      return "streaming";
    case Phase::ready:
      return "ready";
  }
  return "none";
}

Phase parse_phase(std::string_view text) {
  constexpr std::array kAll{Phase::none,     Phase::creating,  Phase::copying,
                            Phase::indexing, Phase::streaming, Phase::ready};
  return parse(text, kAll, "phase");
}

std::string_view to_string(TablePhase phase) {
  switch (phase) {
    case TablePhase::pending:
      return "pending";
    case TablePhase::copying:
      return "copying";
    case TablePhase::copied:
      return "copied";
    case TablePhase::indexed:
      return "indexed";
    case TablePhase::done:
      return "done";
    case TablePhase::skipped:
      return "skipped";
  }
  return "pending";
}

TablePhase parse_table_phase(std::string_view text) {
  constexpr std::array kAll{TablePhase::pending, TablePhase::copying, TablePhase::copied,
                            TablePhase::indexed, TablePhase::done,    TablePhase::skipped};
  return parse(text, kAll, "table phase");
}

std::string_view to_string(GuardKind kind) {
  switch (kind) {
    case GuardKind::column:
      return "column";
    case GuardKind::ledger:
      return "ledger";
    case GuardKind::none:
      return "none";
  }
  return "none";
}

GuardKind parse_guard_kind(std::string_view text) {
  constexpr std::array kAll{GuardKind::column, GuardKind::ledger, GuardKind::none};
  return parse(text, kAll, "guard kind");
}

}  // namespace pgbaton::state
