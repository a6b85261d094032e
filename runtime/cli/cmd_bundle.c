/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon bundle: a folder with just what a model needs on one kind of device.
 */
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenon/bundle.h>

#include "runtime/base/base.h"
#include "runtime/cli/cli.h"
#include "runtime/cli/link/link.h"

typedef struct bundle_opts {
  char *out, *prefix, *arch, *max_size, *verify, *compiler;
  char **with, **library_dirs;
  int linked, whole;
  char program[4096], plugins[4096], helper[4096];
  tn_bundle_opts o;
} bundle_opts;

static uint32_t count_strings(char **list) {
  uint32_t n = 0;
  while (list && list[n]) n++;
  return n;
}

/* PREFIX/lib/tenon/plugins or PREFIX/lib/TRIPLET/tenon/plugins. */
static bool find_plugins(const char *prefix, char *out, size_t n) {
  struct stat st;
  char lib[3072];
  if (snprintf(out, n, "%s/lib/tenon/plugins", prefix) < (int)n && stat(out, &st) == 0) return true;
  if (snprintf(lib, sizeof lib, "%s/lib", prefix) >= (int)sizeof lib) return false;
  DIR *d = opendir(lib);
  bool found = false;
  for (struct dirent *e; d && !found && (e = readdir(d));)
    found =
        e->d_name[0] != '.' && snprintf(out, n, "%s/%s/tenon/plugins", lib, e->d_name) < (int)n && stat(out, &st) == 0;
  if (d) closedir(d);
  return found;
}

/* The machine of a program, or "". Without stdio, whose buffers may find no memory; NULL: there is none to open it. */
static const char *arch_of(const char *program) {
  Elf64_Ehdr h = {0};
  const int fd = open(program, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && tni_errno_status(errno, TN_OK) != TN_OK) return NULL;
  const bool is_elf = fd >= 0 && read(fd, &h, sizeof h) == (ssize_t)sizeof h && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0;
  if (fd >= 0) close(fd);
  return !is_elf ? "" : h.e_machine == EM_X86_64 ? "x86-64" : h.e_machine == EM_AARCH64 ? "aarch64" : "";
}

static bool same_arch(const char *a, const char *b) {
  return strcmp(a, b) == 0 || (strcmp(a, "x86_64") == 0 && strcmp(b, "x86-64") == 0) ||
         (strcmp(a, "arm64") == 0 && strcmp(b, "aarch64") == 0);
}

/* Which program is shipped, and from where the plugins come. */
static int find_parts(cli *c, bundle_opts *b) {
  if (b->prefix) {
    if (snprintf(b->program, sizeof b->program, "%s/bin/tenon", b->prefix) >= (int)sizeof b->program ||
        access(b->program, R_OK) != 0)
      return cli_usage(c, "--prefix '%s': there is no bin/tenon in it", b->prefix);
    if (!find_plugins(b->prefix, b->plugins, sizeof b->plugins))
      return cli_usage(c, "--prefix '%s': there is no lib/tenon/plugins in it", b->prefix);
    b->o.target_plugins = b->plugins;
    if (snprintf(b->helper, sizeof b->helper, "%s/libexec/tenon/tenon-helper", b->prefix) < (int)sizeof b->helper &&
        access(b->helper, R_OK) == 0)
      b->o.helper = b->helper;
  } else {
    const ssize_t n = readlink("/proc/self/exe", b->program, sizeof b->program - 1);
    if (n <= 0) return cli_usage(c, "cannot find this program; --prefix says where Tenon is installed");
    b->program[n] = '\0';
  }
  const char *arch = arch_of(b->program);
  if (!arch) return cli_fail(c, tni_fail_memory(&c->err, b->program));
  if (!*arch) return cli_usage(c, "'%s' is no program for x86-64 or aarch64", b->program);
  if (b->arch && !same_arch(b->arch, arch))
    return cli_usage(c,
                     b->prefix ? "--arch %s: '%s' is built for %s"
                               : "--arch %s: '%s' is built for %s; --prefix says where Tenon for it is installed",
                     b->arch, b->program, arch);
  b->o.program = b->program;
  return 0;
}

static void on_working(void *user, tn_runtime *rt) {
  (void)user;
  cli_cancel_load(rt);
}

static tn_status on_link(void *user, const char *const *plugins, uint32_t n, const char *out,
                         void (*used)(void *, const char *), void *ctx, tn_error *err) {
  const bundle_opts *b = user;
  const cli_link l = {.program = b->program,
                      .plugin_dir = b->o.target_plugins,
                      .compiler = b->compiler,
                      .whole = b->whole != 0,
                      .used = used,
                      .ctx = ctx};
  return cli_link_static(&l, plugins, n, out, err);
}

static const char *bundle_str(json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

/* Files of a role are one line of the table, as long as nobody asks for all. */
static void print_files(json_t *j, cli_format f) {
  static const char *const header[] = {"part", "files", "bytes"};
  static const char *const roles[] = {"program",     "library", "plugin",    "manifest", "resource",
                                      "model",       "packed",  "compiled",  "tokenizer", "config",
                                      "profile",     "calibration", "licence", "script",  "spdx",     "list"};
  cli_table t;
  cli_table_init(&t, header, 3);
  json_t *files = json_object_get(j, "files"), *e;
  size_t i;
  for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
    long long n = 0, bytes = 0;
    char a[32], b[32];
    json_array_foreach(files, i, e) if (strcmp(bundle_str(e, "role"), roles[r]) == 0) {
      n++;
      bytes += json_integer_value(json_object_get(e, "bytes"));
    }
    snprintf(a, sizeof a, "%lld", n);
    snprintf(b, sizeof b, "%lld", bytes);
    if (n) cli_table_add(&t, roles[r], a, b);
  }
  char total[32], n[32];
  snprintf(total, sizeof total, "%lld", (long long)json_integer_value(json_object_get(j, "total_bytes")));
  snprintf(n, sizeof n, "%zu", json_array_size(files));
  cli_table_add(&t, "total", n, total);
  cli_table_print(&t, f);
  cli_table_finish(&t);
}

static void print_left(json_t *j) {
  json_t *left = json_object_get(j, "left_out"), *e;
  size_t i;
  json_array_foreach(left, i, e) cli_note("left out: %s: %s", bundle_str(e, "what"), bundle_str(e, "why"));
}

static void print_made(cli *c, char *json) {
  json_t *j = json_loads(json, 0, NULL);
  if (c->format == FMT_JSON) {
    cli_print_json(json_incref(j), JSON_INDENT(1));
  } else {
    print_files(j, c->format);
    print_left(j);
  }
  json_decref(j);
}

static int make_in_folder(cli *c, bundle_opts *b, const tn_runtime_opts *ro) {
  char *json = NULL;
  b->o.h = (tn_hdr){sizeof b->o, 1, 0};
  b->o.folder = b->out;
  b->o.with = (const char *const *)b->with;
  b->o.n_with = count_strings(b->with);
  b->o.library_dirs = (const char *const *)b->library_dirs;
  b->o.n_library_dirs = count_strings(b->library_dirs);
  b->o.working = on_working;
  b->o.link = b->linked || b->whole ? on_link : NULL;
  b->o.user = b;
  const char *epoch = cli_env("SOURCE_DATE_EPOCH"); /* reproducible-builds.org */
  b->o.created = epoch ? strtoll(epoch, NULL, 10) : 0;
  const tn_status st = cli_saved(c, tn_bundle_make(ro, &b->o, &json, &c->err));
  int rc = st == TN_OK ? EXIT_DONE : 0;
  if (st == TN_E_LIMIT && json) { /* one JSON object, whatever happens */
    if (c->format != FMT_JSON) print_made(c, json);
    (void)cli_fail(c, st);
    rc = EXIT_CHECK;
  } else if (st != TN_OK) {
    rc = cli_fail(c, st);
  } else {
    print_made(c, json);
  }
  tn_free(json);
  return rc;
}

static int open_and_make(cli *c, bundle_opts *b) {
  cli_runtime *r = calloc(1, sizeof *r);
  if (!r) return cli_fail(c, TN_E_NO_MEMORY);
  int rc = cli_runtime_opts(c, 0, r);
  if (!rc && r->bundle.profile) rc = cli_usage(c, "this Tenon is part of a bundle: it has only what that needs");
  if (!rc) rc = make_in_folder(c, b, &r->o);
  cli_runtime_finish(r);
  free(r);
  return rc;
}

static int verify_folder(cli *c, const char *folder) {
  char *json = NULL;
  const tn_status st = tn_bundle_check(folder, TN_BUNDLE_ALL, &json, &c->err);
  if (st == TN_E_CORRUPT) return cli_fail(c, st), EXIT_CHECK;
  if (st != TN_OK) return cli_fail(c, st);
  json_t *j = json_loads(json, 0, NULL);
  if (c->format == FMT_JSON)
    cli_print_json(json_incref(j), JSON_INDENT(1));
  else
    printf("%s: %zu files, all as bundle.json says\n", folder, json_array_size(json_object_get(j, "files")));
  json_decref(j);
  tn_free(json);
  return EXIT_DONE;
}

int cmd_bundle(int argc, const char **argv) {
  cli c = {.command = "bundle"};
  bundle_opts b = {0};
  const opt_row own[] = {
      {"output", 'o', OPT_TEXT, &b.out, "DIR", NULL, "the folder to make", NULL},
      {"with", 0, OPT_LIST, &b.with, "PLUGIN", NULL, "ship this plugin of the profile though it takes no node", NULL},
      {"max-size", 0, OPT_TEXT, &b.max_size, "BYTES|nK|nM|nG", NULL, "fail (exit 1) where all files together take more",
       NULL},
      {"arch", 0, OPT_TEXT, &b.arch, "ARCH", NULL, "the machine that it is for: x86-64 or aarch64", NULL},
      {"prefix", 0, OPT_TEXT, &b.prefix, "DIR", NULL,
       "take program, libraries and plugins of the Tenon installed there", NULL},
      {"static", 0, OPT_FLAG, &b.linked, NULL, NULL, "link the plugins into the program (needs a compiler)", NULL},
      {"static-libc", 0, OPT_FLAG, &b.whole, NULL, NULL, "as --static, with the C library: needs the kernel alone",
       NULL},
      {"cc", 0, OPT_TEXT, &b.compiler, "CC", NULL, "the compiler that links, for the bundle's machine", "cc"},
      {"library-dir", 0, OPT_LIST, &b.library_dirs, "DIR", NULL, "search this folder for shared libraries first", NULL},
      {"verify", 0, OPT_TEXT, &b.verify, "DIR", NULL,
       "compare every byte of a bundle with its list, and do nothing else", NULL},
      OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv, &(cli_use){.usage = "MODEL -o DIR [options]", .operand = "[MODEL]", .own = own});
  if (!rc && b.verify) {
    rc = c.operand ? cli_usage(&c, "--verify takes no MODEL") : verify_folder(&c, b.verify);
  } else if (!rc) {
    if (!c.operand) rc = cli_usage(&c, "one MODEL is needed");
    if (!rc && b.compiler && !b.linked && !b.whole) rc = cli_usage(&c, "--cc goes with --static or --static-libc");
    if (!rc && (!b.out || !*b.out)) rc = cli_usage(&c, "-o DIR is needed");
    if (!rc && b.max_size && !(b.o.max_bytes = cli_size(b.max_size)))
      rc = cli_usage(&c, "--max-size '%s': bytes, or a number with K, M or G", b.max_size);
    if (!rc) rc = find_parts(&c, &b);
    b.o.model = c.operand;
    b.o.model_file = c.model_file;
    if (!rc) rc = open_and_make(&c, &b);
  }
  cli_finish(&c);
  return rc;
}
