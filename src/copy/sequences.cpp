// Sequences are not in the stream. setval() is not transactional, so everything that could make one of them fail is
// looked at before the first is set.
#include <fmt/format.h>

#include <map>
#include <pgbaton/catalog/table.hpp>
#include <pgbaton/copy/finalize.hpp>
#include <pgbaton/copy/sequences.hpp>

#include "sequence_value.hpp"

namespace pgbaton::copy {
namespace {

constexpr std::size_t kPerStatement = 500;  // keeps a statement well below a megabyte

Error out_of_limits(const catalog::Sequence& sequence, std::int64_t gap) {
  return Error(ErrorKind::rejected,
               fmt::format("sequence {} at {} cannot be set {} × {} further: its limits are {} and {}",
                           sequence.name.quoted(), sequence.last_value, gap, sequence.increment, sequence.minimum,
                           sequence.maximum))
      .table(sequence.name.quoted())
      .hint("Take a smaller --gap, or widen the limits of the sequence on both sides.");
}

// setval() of the ones before it could not be taken back.
void require_settable(const catalog::Sequence& from, const catalog::Sequence& to) {
  const auto name = to.name.quoted();
  if (!to.settable)
    throw Error(ErrorKind::preflight, fmt::format("the role may not set sequence {} on the target", name))
        .side(Side::target)
        .sqlstate("42501")
        .table(name)
        .hint(fmt::format("GRANT UPDATE ON SEQUENCE {} to this role. No sequence was set.", name));
  // Who takes 50 keys for each value would take again what was taken before it.
  if (from.increment != to.increment)
    throw Error(
        ErrorKind::rejected,
        fmt::format("sequence {} steps by {} on the source and by {} on the target: values given there could be "
                    "taken again",
                    name, from.increment, to.increment))
        .side(Side::target)
        .table(name)
        .hint(fmt::format("ALTER SEQUENCE {} INCREMENT {}; on the target. No sequence was set.", name, from.increment));
}

struct Setting {
  QualifiedName name;
  std::int64_t value = 0;
  bool called = false;
};

std::string statement(const std::vector<Setting>& settings, std::size_t begin, std::size_t end) {
  std::string values;
  for (std::size_t i = begin; i < end; ++i)
    values += fmt::format("{}({}::regclass, {}::bigint, {})", values.empty() ? "" : ", ",
                          quote_literal(settings[i].name.quoted()), settings[i].value, settings[i].called);
  return fmt::format("select count(pg_catalog.setval(s, v, c)) from (values {}) as x(s, v, c)", values);
}

// The target has given values that lie beyond; set back, it would give them again.
bool is_ahead(const catalog::Sequence& sequence, std::int64_t value, bool called) {
  if (!sequence.is_called) return false;
  if (sequence.last_value == value) return !called;
  return (sequence.last_value > value) == (sequence.increment > 0);
}

std::vector<Setting> plan(const std::vector<catalog::Sequence>& from, const std::vector<catalog::Sequence>& to,
                          std::int64_t gap, std::vector<QualifiedName>* missing,
                          std::vector<SequenceAhead>* ahead = nullptr) {
  std::map<QualifiedName, const catalog::Sequence*> targets;
  for (const auto& sequence : to) targets.emplace(sequence.name, &sequence);
  std::vector<Setting> settings;
  for (const auto& sequence : from) {
    const auto found = targets.find(sequence.name);
    if (found == targets.end()) {
      if (missing != nullptr) missing->push_back(sequence.name);
      continue;
    }
    require_settable(sequence, *found->second);
    const auto value = advanced_value(sequence, gap);
    const auto& limits = *found->second;
    if (!value) throw out_of_limits(sequence, gap).side(Side::source);
    if (*value < limits.minimum || *value > limits.maximum) throw out_of_limits(limits, gap).side(Side::target);
    if (ahead != nullptr && is_ahead(limits, *value, sequence.is_called))
      ahead->push_back({sequence.name, limits.last_value, *value});
    else
      settings.push_back({sequence.name, *value, sequence.is_called});
  }
  return settings;
}

}  // namespace

std::optional<std::int64_t> advanced_value(const catalog::Sequence& sequence, std::int64_t gap) {
  // Never called: it has given nothing out, and its first value is still to come.
  if (!sequence.is_called) return sequence.last_value;
  std::int64_t step = 0, value = 0;
  if (__builtin_mul_overflow(gap, sequence.increment, &step) ||
      __builtin_add_overflow(sequence.last_value, step, &value))
    return std::nullopt;
  if (value < sequence.minimum || value > sequence.maximum) return std::nullopt;
  return value;
}

void require_sequences(pg::Control& source, pg::Control& target, std::int64_t gap,
                       std::vector<QualifiedName>* missing) {
  plan(catalog::load_sequences(source, Side::source), catalog::load_sequences(target, Side::target), gap, missing);
}

namespace {

// setval() of all or none.
int set(pg::Control& target, const std::vector<Setting>& settings) {
  pg::control(Side::target, "setting sequences", [&] {
    pqxx::work tx(target);
    for (std::size_t begin = 0; begin < settings.size(); begin += kPerStatement) {
      const auto end = std::min(settings.size(), begin + kPerStatement);
      const auto set = tx.exec1(statement(settings, begin, end))[0].as<std::size_t>();
      if (set != end - begin)
        throw Error(ErrorKind::failed, fmt::format("{} of {} sequences were set", set, end - begin)).side(Side::target);
    }
    tx.commit();
  });
  return static_cast<int>(settings.size());
}

}  // namespace

int copy_sequences(pg::Control& source, pg::Control& target, std::int64_t gap, std::vector<QualifiedName>* missing,
                   std::vector<SequenceAhead>* ahead) {
  if (gap < 0) throw Error(ErrorKind::usage, "--gap must not be negative");
  return set(target, plan(catalog::load_sequences(source, Side::source), catalog::load_sequences(target, Side::target),
                          gap, missing, ahead));
}

int advance_sequences(pg::Control& source, pg::Control& target, std::int64_t gap) {
  const auto from = catalog::load_sequences(source, Side::source), to = catalog::load_sequences(target, Side::target);
  std::vector<SequenceAhead> ahead;
  auto settings = plan(from, to, gap, nullptr, &ahead);
  std::map<QualifiedName, const catalog::Sequence*> given, taken;
  for (const auto& sequence : from) given.emplace(sequence.name, &sequence);
  for (const auto& sequence : to) taken.emplace(sequence.name, &sequence);
  // Its first value may be given on the source while writers are fenced, which does not stop nextval().
  std::erase_if(settings, [&](Setting& setting) {
    if (setting.called) return false;
    auto called = *given.at(setting.name);
    called.is_called = true;
    const auto& now = *taken.at(setting.name);
    const auto value = advanced_value(called, gap);
    if (value && *value >= now.minimum && *value <= now.maximum) setting.value = *value;
    return now.last_value == setting.value || (now.last_value > setting.value) == (now.increment > 0);
  });
  return set(target, settings);
}

}  // namespace pgbaton::copy
