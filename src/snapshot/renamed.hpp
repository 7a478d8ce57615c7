// Tables that are called otherwise on the source than they were planned. The target, the archive and the state know
// them by that name, so another table that has it by now would be taken for them. Private to the module.
#pragma once
#include <pgbaton/base/error.hpp>
#include <pgbaton/catalog/relation.hpp>
#include <pgbaton/copy/copy.hpp>
#include <pgbaton/state/store.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace pgbaton::snapshot {

// Notes of tables that were skipped because the source had them no more begin so.
inline constexpr std::string_view kDropped = "dropped";
inline constexpr std::string_view kDroppedBeforeCopy = "dropped on the source before it was copied";

// Recorded as dropped. Earlier versions recorded so what had another name, too.
bool is_noted_as_dropped(const state::TableState& state);

// Error(rejected): names both, and what to do. The second for what load_tables() does not give any more.
Error renamed(const QualifiedName& planned, const QualifiedName& now);
Error no_table_any_more(const QualifiedName& planned, const QualifiedName& now);

// Error(rejected) when a relation of the source that stands for one of these jobs has another name than the job's, or
// when one to be copied is no table any more. One that was dropped is not looked at.
void require_names(pg::Control& source, const std::vector<copy::CopyJob>& jobs);

}  // namespace pgbaton::snapshot
