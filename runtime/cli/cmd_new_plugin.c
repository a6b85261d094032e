/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder to begin a plugin with. The texts are runtime/cli/new-plugin/, part of the program.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "new_plugin_text.h"
#include "runtime/base/base.h"
#include "runtime/cli/cli.h"

#if defined(__x86_64__)
#define ARCH "x86-64"
#elif defined(__aarch64__)
#define ARCH "aarch64"
#else
#error "an architecture that manifests do not name"
#endif

enum { MAX_NAME = 31 };

static const struct {
  const char *ending, *text;
} files[] = {{"%s.c", tni_src_source},
             {"%s.yaml", tni_src_manifest},
             {"meson.build", tni_src_build},
             {"CMakeLists.txt", tni_src_cmake},
             {"README.md", tni_src_readme},
             {"%s-profile.yaml", tni_src_profile}};

/* Goes into file names, C identifiers and YAML. */
static bool is_name(const char *s) {
  const size_t n = strlen(s);
  return n && n <= MAX_NAME && s[0] >= 'a' && s[0] <= 'z' && s[n - 1] != '-' &&
         strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static void write_text(FILE *f, const char *text, const char *name, const char *ident) {
  const struct { const char *mark, *value; } marks[] = {{"@NAME@", name}, {"@IDENT@", ident}, {"@ARCH@", ARCH}};
  while (*text) {
    size_t plain = strcspn(text, "@"), k = 0, n = sizeof marks / sizeof *marks;
    fwrite(text, 1, plain, f);
    text += plain;
    while (*text && k < n && strncmp(text, marks[k].mark, strlen(marks[k].mark)) != 0) k++;
    if (*text && k < n) {
      fputs(marks[k].value, f);
      text += strlen(marks[k].mark);
    } else if (*text) {
      putc(*text++, f);
    }
  }
}

static int write_file(cli *c, const char *dir, size_t i, const char *name, const char *ident) {
  char file[64], path[4096];
  const size_t end = strlen(files[i].ending);
  const bool named = end > 1 && files[i].ending[0] == '%';
  snprintf(file, sizeof file, "%s%s", named ? name : "", files[i].ending + (named ? 2 : 0));
  if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path) return cli_usage(c, "the path is too long");
  FILE *f = fopen(path, "wx");
  if (f) write_text(f, files[i].text, name, ident);
  if (f && (errno = tni_close_written(f)) == 0) return EXIT_DONE;
  return cli_fail(c, cli_saved(c, cli_error(&c->err, TN_E_IO, NULL, "cannot write '%s': %s", path, strerror(errno))));
}

static int make_plugin_folder(cli *c, const char *name, const char *dir) {
  char ident[MAX_NAME + 1];
  snprintf(ident, sizeof ident, "%s", name);
  for (char *p = ident; *p; p++)
    if (*p == '-') *p = '_';
  if (mkdir(dir, 0777) != 0 && errno != EEXIST) {
    return cli_fail(
        c, cli_saved(c, cli_error(&c->err, TN_E_IO, NULL, "cannot make the folder '%s': %s", dir, strerror(errno))));
  }
  int rc = EXIT_DONE;
  for (size_t i = 0; !rc && i < sizeof files / sizeof *files; i++) rc = write_file(c, dir, i, name, ident);
  if (rc) return rc;
  printf("%s\n", dir);
  cli_note("next: cd %s && meson setup build && ninja -C build && tenon conform build/%s.so --level abi", dir, name);
  return EXIT_DONE;
}

int cmd_new_plugin(int argc, const char **argv) {
  cli c = {.command = "new-plugin"};
  char *dir = NULL;
  const opt_row own[] = {{"dir", 0, OPT_TEXT, &dir, "DIR", NULL, "folder to make", "NAME, in this one"}, OPT_ROWS_END};
  int rc = cli_parse(&c, argc, argv, &(cli_use){.usage = "NAME [options]", .operand = "NAME", .own = own});
  if (!rc && !is_name(c.operand))
    rc = cli_usage(&c, "a NAME is 1 to 31 of a-z, 0-9 and '-', begins with a letter and does not end with '-'");
  if (!rc) rc = make_plugin_folder(&c, c.operand, dir ? dir : c.operand);
  cli_finish(&c);
  return rc;
}
