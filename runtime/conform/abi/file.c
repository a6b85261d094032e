/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, the part that reads the file: what the loader will do with the plugin. No code of it runs.
 */
#include <string.h>

#include "runtime/conform/abi/parts.h"

/* --- the file ---------------------------------------------------------------------------------------------------- */

/* Other names could collide with another plugin's or the application's. */
static void one_symbol(tni_cf *cf, const void *arg) {
  tni_cf_elf e;
  (void)arg;
  if (!tni_cf_open_file(cf, &e)) return;
  if (!e.entry) tni_cf_fail(cf, "%s is not exported", TN_ENTRY_SYMBOL);
  for (uint32_t i = 0; i < e.n_exported && i < TNI_CF_ELF_NAMES; i++)
    if (strcmp(e.exported[i], TN_ENTRY_SYMBOL))
      tni_cf_fail(cf, "%s is exported: only %s may be (compile with -fvisibility=hidden)", e.exported[i],
                  TN_ENTRY_SYMBOL);
  if (e.n_exported > TNI_CF_ELF_NAMES) tni_cf_fail(cf, "%u symbols are exported", e.n_exported);
  tni_cf_elf_close(&e);
}

/* What compilers put there themselves: the start files' pair, processor detection, sanitizers and profiles. Priorities
 * up to 100 are the compiler's, whatever the function is called. */
static bool by_compiler(const char *name) {
  static const char *const known[] = {"frame_dummy", "__do_global_dtors_aux", "init_have_lse_atomics",
                                      "__cpu_indicator_init", "__init_cpu_features"};
  static const char *const starts[] = {"_sub_I_00", "_sub_D_00", "asan.", "tsan.", "msan.", "sancov.", "__llvm_"};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (!strncmp(name, starts[i], strlen(starts[i]))) return true;
  return tni_cf_has_name(known, sizeof known / sizeof *known, name);
}

static void look_at_calls(tni_cf *cf, const tni_cf_elf_calls *c, const char *what) {
  uint64_t unknown = 0;
  for (uint64_t i = 0; i < c->n && i < TNI_CF_ELF_NAMES; i++) {
    if (c->name[i] && c->name[i][0]) {
      if (!by_compiler(c->name[i])) tni_cf_fail(cf, "%s runs when the file is %s", c->name[i], what);
    } else {
      unknown++;
    }
  }
  /* Stripped: the start files have one. */
  if (unknown > 1) tni_cf_fail(cf, "%llu functions run when the file is %s", (unsigned long long)unknown, what);
}

/* Code that runs before the host has looked at anything, and after it has let go. */
static void check_constructors(tni_cf *cf, const void *arg) {
  tni_cf_elf e;
  (void)arg;
  if (!tni_cf_open_file(cf, &e)) return;
  look_at_calls(cf, &e.init, "loaded");
  look_at_calls(cf, &e.fini, "unloaded");
  tni_cf_elf_close(&e);
}

/* A symbol that is missing must show when the plugin is loaded, not in the middle of a text. */
static void check_linking(tni_cf *cf, const void *arg) {
  tni_cf_elf e;
  (void)arg;
  if (!tni_cf_open_file(cf, &e)) return;
  if (!e.now) tni_cf_fail(cf, "symbols are bound lazily: link with -Wl,-z,now");
  if (e.text_relocations) tni_cf_fail(cf, "it has text relocations: compile with -fPIC");
  if (e.executable_stack) tni_cf_fail(cf, "it asks for an executable stack: link with -Wl,-z,noexecstack");
  if (e.writable_code) tni_cf_fail(cf, "a segment is both writable and executable");
  if (e.runpath) tni_cf_fail(cf, "it carries a library path (RPATH or RUNPATH), which names folders of its build");
  tni_cf_elf_close(&e);
}

/* What is the application's alone: functions that change it for everybody in the process. Whoever has to call one does
 * it in a process of its own. */
static void check_imports(tni_cf *cf, const void *arg) {
  static const struct {
    const char *what, *names[20];
  } rules[] = {
      {"changes the environment", {"setenv", "putenv", "unsetenv", "clearenv"}},
      {"changes the locale", {"setlocale", "uselocale"}},
      {"changes how signals are handled", {"signal", "sigaction", "bsd_signal", "__sysv_signal", "siginterrupt", "sigset", "sigignore", "sighold", "sigrelse",
        "sigprocmask", "sigaltstack"}},
      {"sends itself signals, now or later", {"alarm", "ualarm", "setitimer", "raise", "killpg"}},
      {"waits for processes, which may be the application's", {"wait", "wait3", "wait4", "waitpid", "waitid"}},
      {"draws from, or seeds, the random numbers of the whole process",
       {"rand", "srand", "random", "srandom", "initstate", "setstate", "drand48", "lrand48", "mrand48", "srand48", "seed48",
        "lcong48"}},
      {"changes how all memory of the process is had", {"mallopt", "mlockall", "munlockall"}},
      {"changes what the process is",
       {"setuid", "setgid", "seteuid", "setegid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setsid",
        "setpgid", "setpgrp", "unshare", "setns", "personality", "capset"}},
      {"starts processes",
       {"fork", "vfork", "posix_spawn", "posix_spawnp", "system", "popen", "execv", "execve", "execvp", "execl",
        "execlp", "daemon"}},
      {"changes limits and priorities", {"setrlimit", "setrlimit64", "prlimit", "prlimit64", "nice", "setpriority"}},
      {"changes the working directory or the umask", {"chdir", "fchdir", "umask", "chroot"}},
      {"ends the process, or has code run at its end",
       {"exit", "_exit", "_Exit", "quick_exit", "atexit", "on_exit", "at_quick_exit", "pthread_exit"}},
      {"writes to standard output, which is the application's; tn_host.log is for messages",
       {"stdout", "printf", "vprintf", "puts", "putchar", "putchar_unlocked", "_IO_putc_stdout", "__printf_chk",
        "__vprintf_chk"}},
  };
  tni_cf_elf e;
  (void)arg;
  if (!tni_cf_open_file(cf, &e)) return;
  /* Of C it is atexit; C++ has it for objects of its own, which go when the file is unloaded. */
  if (tni_cf_has_name(e.imported, e.n_imported, "__cxa_atexit") &&
      !tni_cf_has_name(e.imported, e.n_imported, "__gxx_personality_v0"))
    tni_cf_fail(cf, "it calls atexit, which has code run at the process's end (plugin.h, rule 7)");
  for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
    for (size_t k = 0; k < sizeof rules[r].names / sizeof *rules[r].names && rules[r].names[k]; k++)
      if (tni_cf_has_name(e.imported, e.n_imported, rules[r].names[k]))
        tni_cf_fail(cf, "it calls %s, which %s (plugin.h, rule 7)", rules[r].names[k], rules[r].what);
  /* The C++ library, linked statically, brings its own. */
  static const char *const ends[] = {"abort", "__assert_fail", "__assert_perror_fail"}, *const speaks[] = {"stderr", "perror"};
  const bool cxx = tni_cf_has_name(e.imported, e.n_imported, "__gxx_personality_v0") ||
                   tni_cf_has_name(e.imported, e.n_imported, "_Unwind_Resume");
  for (size_t k = 0; !cxx && k < sizeof ends / sizeof *ends; k++)
    if (tni_cf_has_name(e.imported, e.n_imported, ends[k]))
      tni_cf_fail(cf, "it calls %s, which ends the process: a status and a text say what is wrong (plugin.h, rule 7)", ends[k]);
  for (size_t k = 0; !cxx && k < sizeof speaks / sizeof *speaks; k++)
    if (tni_cf_has_name(e.imported, e.n_imported, speaks[k]))
      tni_cf_fail(cf, "it writes to standard error (%s), which is the application's; tn_host.log is for messages", speaks[k]);
  tni_cf_elf_close(&e);
}

/* Whatever else is needed must be said: a package has to bring it. */
static void check_needed(tni_cf *cf, const void *arg) {
  static const char *const system[] = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
                                       "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
                                       /* Android's */
                                       "libc.so", "libm.so", "libdl.so", "liblog.so",
                                       /* of a build under test */
                                       "libasan.so.8", "libasan.so.6", "libubsan.so.1", "libtsan.so.2", "libtsan.so.0"};
  tni_cf_elf e;
  tni_manifest m = {0};
  (void)arg;
  if (!tni_cf_open_file(cf, &e)) return;
  const bool said = tni_cf_manifest_of(cf, &m);
  for (uint32_t i = 0; i < e.n_needed && i < TNI_CF_ELF_NAMES; i++)
    if (!tni_cf_has_name(system, sizeof system / sizeof *system, e.needed[i]) &&
        !(said && tni_cf_has_name(m.libraries, m.n_libraries, e.needed[i])))
      tni_cf_fail(cf, "it needs %s, which is neither the C library nor among `libraries` of its manifest", e.needed[i]);
  if (e.n_needed > TNI_CF_ELF_NAMES) tni_cf_fail(cf, "it needs %u libraries", e.n_needed);
  tni_cf_elf_close(&e);
}

void tni_cf_abi_file_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  static const tni_cf_case cases[] = {
      {"abi/file/one-symbol", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, one_symbol, NULL, 0},
      {"abi/file/constructors", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, check_constructors, NULL, 0},
      {"abi/file/linking", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, check_linking, NULL, 0},
      {"abi/file/imports", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, check_imports, NULL, 0},
      {"abi/file/needed", TNI_CF_LEVEL_ALL, TNI_CF_NO_DEVICE, check_needed, NULL, 0},
  };
  if (!strcmp(l->subject->path, "host")) return; /* it has no file */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) add(ctx, &cases[i]);
}
