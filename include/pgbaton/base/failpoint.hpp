// Named failpoints. In a build with -DPGBATON_FAILPOINTS=ON the environment variable PGBATON_FAILPOINTS holds
// "name=action[,name=action…]", an action being kill (SIGKILL to ourselves), error (throws Error(failed), action
// retry), stop (throws Error(failed), action stop) or sleep:MILLISECONDS, each with an optional "@N": only the N-th
// time. In other builds the macro is empty.
#pragma once

namespace pgbaton {
void failpoint(const char* name);
}

#ifdef PGBATON_FAILPOINTS
#define PGBATON_FAILPOINT(name) ::pgbaton::failpoint(name)
#else
#define PGBATON_FAILPOINT(name) static_cast<void>(0)
#endif
