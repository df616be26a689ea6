// Linked into sanitized programs that use LibTorch or Open MPI, which keep memory until the end of the process:
// leaks are looked for in all other programs.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
