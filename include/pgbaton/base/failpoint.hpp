// Named failpoints. In a build with -DPGBATON_FAILPOINTS=ON the environment variable PGBATON_FAILPOINTS holds
// "name=action[,name=action…]", an action being kill (SIGKILL to ourselves), error (throws Error(failed), action
// retry), stop (throws Error(failed), action stop), freeze (SIGSTOP to ourselves: the test does something to the
// servers, then sends SIGCONT) or sleep:MILLISECONDS, each with an optional "@N": only the N-th time. The action on
// does nothing by itself: PGBATON_FAILPOINT_SET("name") is then true, for a step that a test leaves out. In other
// builds the macros are empty and false.
#pragma once

namespace pgbaton {
void failpoint(const char* name);
bool failpoint_set(const char* name);
}  // namespace pgbaton

#ifdef PGBATON_FAILPOINTS
#define PGBATON_FAILPOINT(name) ::pgbaton::failpoint(name)
#define PGBATON_FAILPOINT_SET(name) ::pgbaton::failpoint_set(name)
#else
#define PGBATON_FAILPOINT(name) static_cast<void>(0)
#define PGBATON_FAILPOINT_SET(name) false
#endif
