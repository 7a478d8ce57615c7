// A connection string on the command line is visible to every user of the machine in `ps`.
#pragma once

namespace pgbaton::app {

// Overwrites what follows --source and --target in argv with the same string without its secrets. Call it after argv
// was read for the last time.
void hide_secrets(int argc, char** argv);

}  // namespace pgbaton::app
