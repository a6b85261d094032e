/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon bundle --static: one program of LIBDIR/tenon/static (static/meson.build): tenon-cli.o, NAME.o of each plugin,
 * libtenon.a, the other libraries from their archives where the compiler has them, and a table of the plugins with
 * their manifests, which is written here. With --static-libc the C library is among them, and the program has no
 * loader. The compiler is started, not a shell: no name is ever part of a command line.
 */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/link/link.h"

extern char **environ;

enum { MAX_ARGS = 160, MAX_PATH = 4096 };

typedef struct linking {
  const cli_link *from;
  const char *cc, *out;
  char dir[MAX_PATH];       /* the static parts */
  char manifests[MAX_PATH]; /* NAME.yaml, or of a build folder: NAME/NAME.yaml */
  char *args[MAX_ARGS + 1];
  uint32_t n;
  tn_error *err;
} linking;

TN_PRINTF(3, 4) static tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_error_begin(err);
  tni_vfail(err, st, NULL, fmt, ap);
  va_end(ap);
  return st;
}

TN_PRINTF(2, 3) static bool add(linking *l, const char *fmt, ...) {
  va_list ap;
  char *text = NULL;
  if (l->n == MAX_ARGS) return false;
  va_start(ap, fmt);
  const int n = vasprintf(&text, fmt, ap);
  va_end(ap);
  if (n < 0) return false;
  l->args[l->n++] = text;
  return true;
}

static void clear_linking(linking *l) {
  while (l->n) free(l->args[--l->n]);
  memset(l->args, 0, sizeof l->args);
}

/* Runs l->args; what it prints on stdout goes to `to` (NULL: to our stderr). Exit code, or -errno. */
static int run_linker(linking *l, char *to, size_t size) {
  int tube[2] = {-1, -1}, status = 0;
  pid_t pid;
  posix_spawn_file_actions_t fa;
  if (to && pipe(tube) != 0) return -errno;
  if (posix_spawn_file_actions_init(&fa) != 0) return -ENOMEM;
  (void)posix_spawn_file_actions_adddup2(&fa, to ? tube[1] : STDERR_FILENO, STDOUT_FILENO);
  if (to) (void)posix_spawn_file_actions_addclose(&fa, tube[0]);
  const int e = posix_spawnp(&pid, l->args[0], &fa, NULL, l->args, environ);
  posix_spawn_file_actions_destroy(&fa);
  if (to) close(tube[1]);
  size_t have = 0;
  for (ssize_t got; !e && to && have + 1 < size && (got = read(tube[0], to + have, size - have - 1)) > 0;)
    have += (size_t)got;
  if (to) {
    to[have] = '\0';
    close(tube[0]);
  }
  if (e) return -e;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/* LIBDIR/tenon/static beside the plugins, as installed beside the program, or in its build folder. */
static tn_status find_parts(linking *l, const char *program, const char *plugin_dir) {
  static const char *const from_program[][2] = {{"/" TENON_REL_PLUGINS "/../static", "/" TENON_REL_PLUGINS},
                                                {"/../../static", "/../../plugins"}};
  char folder[MAX_PATH], file[MAX_PATH + 16];
  snprintf(folder, sizeof folder, "%s", program);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = '\0';
  for (int i = plugin_dir ? -1 : 0; i < 2; i++) {
    const int n = i < 0 ? snprintf(l->dir, sizeof l->dir, "%s/../static", plugin_dir)
                        : snprintf(l->dir, sizeof l->dir, "%s%s", folder, from_program[i][0]);
    const int m = i < 0 ? snprintf(l->manifests, sizeof l->manifests, "%s", plugin_dir)
                        : snprintf(l->manifests, sizeof l->manifests, "%s%s", folder, from_program[i][1]);
    if (n >= (int)sizeof l->dir || m >= (int)sizeof l->manifests) continue;
    snprintf(file, sizeof file, "%s/tenon-cli.o", l->dir);
    if (access(file, R_OK) == 0) return TN_OK;
    if (plugin_dir) break;
  }
  return fail(
      l->err, TN_E_UNAVAILABLE,
      "--static: no tenon-cli.o in '%s': Tenon was built without -Dstatic, or its static parts are not installed",
      l->dir);
}

/* A string of C, byte by byte where it is not plain. */
static void write_string(FILE *f, const char *text, size_t n) {
  fputc('"', f);
  for (size_t i = 0; i < n; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (c == '\n')
      fputs("\\n\"\n  \"", f);
    else if (c < 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '?')
      fprintf(f, "\\%03o", c);
    else
      fputc(c, f);
  }
  fputc('"', f);
}

static void ident_of(const char *name, char *out, size_t n) {
  snprintf(out, n, "%s", name);
  for (char *p = out; *p; p++)
    if (*p == '-') *p = '_';
}

static tn_status write_entry(linking *l, FILE *f, const char *name, uint32_t i) {
  char path[2 * MAX_PATH], ident[128];
  tni_file text;
  snprintf(path, sizeof path, "%s/%s.yaml", l->manifests, name);
  if (access(path, R_OK) != 0) snprintf(path, sizeof path, "%s/%s/%s.yaml", l->manifests, name, name);
  const tn_status st = tni_file_read(path, &text, l->err);
  if (st != TN_OK) return st;
  ident_of(name, ident, sizeof ident);
  fprintf(f, "extern int tn_static_entry_%s(const void *, void *, void *);\nstatic const char manifest_%u[] =\n  ",
          ident, i);
  write_string(f, text.data, text.bytes);
  fprintf(f,
          ";\nstatic const struct plugin plugin_%u = {sizeof(struct plugin), 1, 0, \"%s\", manifest_%u, "
          "tn_static_entry_%s};\n",
          i, name, i, ident);
  tni_file_unmap(&text);
  return TN_OK;
}

/* The table that stands in for linked_none.c; tn_static_plugin of tenon/plugin.h, said again, so that no header is
 * needed. */
static tn_status write_table(linking *l, const char *path, const char *const *plugins, uint32_t n) {
  FILE *f = fopen(path, "w");
  if (!f) return fail(l->err, TN_E_IO, "cannot write '%s': %s", path, strerror(errno));
  fputs(
      "struct plugin {\n  unsigned size;\n  unsigned short major, minor;\n  const char *name, *manifest;\n"
      "  int (*entry)(const void *, void *, void *);\n};\n",
      f);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = write_entry(l, f, plugins[i], i);
  fputs("extern const struct plugin *const tni_linked_plugins[];\nconst struct plugin *const tni_linked_plugins[] = {",
        f);
  for (uint32_t i = 0; i < n; i++) fprintf(f, "&plugin_%u, ", i);
  fputs("0};\n", f);
  const int why = tni_close_written(f);
  if (why && st == TN_OK) st = fail(l->err, TN_E_IO, "cannot write '%s': %s", path, strerror(why));
  return st;
}

/* The compiler's archive of a library, or "-lNAME" where it has none. */
static tn_status add_library(linking *l, const char *name, char *out, size_t size) {
  linking ask = {.err = l->err};
  char line[MAX_PATH];
  bool ok = add(&ask, "%s", l->cc) && add(&ask, "-print-file-name=lib%s.a", name);
  const int rc = ok ? run_linker(&ask, line, sizeof line) : -ENOMEM;
  clear_linking(&ask);
  if (rc < 0)
    return fail(l->err, TN_E_UNAVAILABLE,
                "--static links a program and needs a compiler: '%s': %s; install one, or name another with --cc",
                l->cc, strerror(-rc));
  line[strcspn(line, "\n")] = '\0';
  if (rc == 0 && strchr(line, '/'))
    snprintf(out, size, "%s", line);
  else
    snprintf(out, size, "-l%s", name);
  return TN_OK;
}

static tn_status add_libraries(linking *l) {
  char path[MAX_PATH + 16], *text = NULL, *save = NULL, found[MAX_PATH];
  tni_file file;
  snprintf(path, sizeof path, "%s/libraries", l->dir);
  tn_status st = tni_file_read(path, &file, l->err);
  if (st != TN_OK) return st;
  text = file.data ? strndup(file.data, file.bytes) : strdup("");
  tni_file_unmap(&file);
  if (!text) return fail(l->err, TN_E_NO_MEMORY, "out of memory");
  for (char *p = st == TN_OK ? strtok_r(text, " \n", &save) : NULL; p && st == TN_OK;
       p = strtok_r(NULL, " \n", &save)) {
    st = add_library(l, p, found, sizeof found);
    if (st == TN_OK && *found == '/') l->from->used(l->from->ctx, found);
    if (st == TN_OK && !add(l, "%s", found)) st = fail(l->err, TN_E_NO_MEMORY, "too many libraries");
  }
  free(text);
  return st;
}

/* The compiler links the C library by itself; where it is in the program, its licence comes along. */
static tn_status note_libc(linking *l) {
  static const char *const names[] = {"c", "m", "gcc"};
  char found[MAX_PATH];
  tn_status st = TN_OK;
  for (size_t i = 0; i < sizeof names / sizeof *names && st == TN_OK; i++) {
    st = add_library(l, names[i], found, sizeof found);
    if (st == TN_OK && *found == '/') l->from->used(l->from->ctx, found);
    if (st == TN_OK && *found != '/' && i == 0)
      st = fail(l->err, TN_E_UNAVAILABLE, "--static-libc: '%s' has no libc.a", l->cc);
  }
  return st;
}

static tn_status link_all(linking *l, const char *table, const char *const *plugins, uint32_t n) {
  const bool whole = l->from->whole;
  bool ok = add(l, "%s", l->cc) && add(l, "-o") && add(l, "%s", l->out) && add(l, "-s") &&
            add(l, whole ? "-static-pie" : "-pie") && add(l, "-fPIE") && add(l, "-w") &&
            add(l, "-Wl,-z,now,--gc-sections,--as-needed") && add(l, "%s", table) && add(l, "%s/tenon-cli.o", l->dir);
  for (uint32_t i = 0; ok && i < n; i++) ok = add(l, "%s/%s.o", l->dir, plugins[i]);
  ok = ok && add(l, "%s/libtenon.a", l->dir);
  tn_status st = ok ? add_libraries(l) : fail(l->err, TN_E_NO_MEMORY, "too many plugins");
  if (st == TN_OK && whole) st = note_libc(l);
  if (st != TN_OK) return st;
  ok = add(l, "-pthread") && add(l, "-ldl") && add(l, "-lm");
  const int rc = ok ? run_linker(l, NULL, 0) : -ENOMEM;
  return rc == 0
             ? TN_OK
             : fail(l->err, TN_E_UNAVAILABLE, "--static: '%s' could not link the program (exit code %d)", l->cc, rc);
}

/* A vendor's plugin may have no static part. */
static tn_status check_plugins(linking *l, const char *const *plugins, uint32_t n) {
  char path[MAX_PATH + 80];
  for (uint32_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s.o", l->dir, plugins[i]);
    if (access(path, R_OK) != 0)
      return fail(l->err, TN_E_UNAVAILABLE, "--static: plugin '%s' has no static part '%s'", plugins[i], path);
  }
  return TN_OK;
}

tn_status cli_link_static(const cli_link *from, const char *const *plugins, uint32_t n, const char *out,
                          tn_error *err) {
  linking l = {.from = from, .cc = from->compiler ? from->compiler : "cc", .out = out, .err = err};
  char table[MAX_PATH + 8];
  snprintf(table, sizeof table, "%s.c", out);
  tn_status st = find_parts(&l, from->program, from->plugin_dir);
  if (st == TN_OK) st = check_plugins(&l, plugins, n);
  if (st == TN_OK) st = write_table(&l, table, plugins, n);
  if (st == TN_OK) st = link_all(&l, table, plugins, n);
  (void)unlink(table);
  clear_linking(&l);
  return st;
}
