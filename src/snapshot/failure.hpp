// What a failed clone leaves behind, and what it says about it.
#pragma once
#include "build.hpp"

namespace pgbaton::snapshot {

// What looks like a lost connection, or like state that is not there, is after --take-over the work of the process that
// has our place now: then throws the Error(held_elsewhere) that says so.
void require_own_place(const Build& build, const Error& error);

// Before anything that is worth keeping exists, everything this run made is taken back: publications, slot and state.
// Once a table is committed, or the schema restored (taking that back could take something else with it), slot and
// state stay for the next run, and how to end it is said; --on-failure drop removes them. What another writer goes on
// with is left alone. Never throws: `error` is the news.
void take_back_or_keep(Build& build, const Error& error) noexcept;

}  // namespace pgbaton::snapshot
