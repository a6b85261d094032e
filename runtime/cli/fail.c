/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong: texts on stderr, one JSON object on stdout, exit codes.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/cli/cli.h"

static int exit_code(tn_status st) {
  switch (st) {
    case TN_OK:
      return EXIT_DONE;
    case TN_E_INVALID:
    case TN_E_UNAVAILABLE:
    case TN_E_CORRUPT:
    case TN_E_IO:
    case TN_E_LIMIT:
      return EXIT_INPUT;
    case TN_E_UNSUPPORTED:
      return EXIT_UNSUPPORTED;
    case TN_E_CANCELLED:
      return EXIT_INT;
    default:
      return EXIT_DEVICE;
  }
}

void cli_print_json(json_t *j, size_t flags) {
  enum { SCHEMA = 1 };
  if (json_is_object(j) && !json_object_get(j, "schema")) json_object_set_new(j, "schema", json_integer(SCHEMA));
  json_dumpf(j, stdout, flags);
  putchar('\n');
  json_decref(j);
}

tn_status cli_error(tn_error *err, tn_status st, const char *where, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_error_begin(err);
  tni_vfail(err, st, where, fmt, ap);
  va_end(ap);
  return st;
}

int cli_fail(cli *c, tn_status st) {
  const char *message = c->err.message[0] ? tn_error_text(&c->err) : "failed without a reason";
  if (c->format == FMT_JSON) {
    json_t *m = json_string(message), *w = json_string(c->err.where);
    json_t *j = json_pack("{s:{s:s, s:o, s:o}}", "error", "code", tn_status_name(st), "message",
                          m ? m : json_string("(not UTF-8)"), "where", w ? w : json_string(""));
    cli_print_json(j, JSON_INDENT(1));
  } else if (c->err.where[0] && !strstr(message, c->err.where)) {
    cli_plain_printf(stderr, "tenon: %s: %s\n", c->err.where, message);
  } else {
    cli_plain_printf(stderr, "tenon: %s\n", message);
  }
  return st == TN_E_IO && c->unsaved ? EXIT_OUTPUT : exit_code(st);
}

tn_status cli_saved(cli *c, tn_status st) {
  c->unsaved = c->unsaved || st == TN_E_IO;
  return st;
}

int cli_usage(cli *c, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_error_begin(&c->err);
  tni_vfail(&c->err, TN_E_INVALID, NULL, fmt, ap);
  va_end(ap);
  cli_fail(c, TN_E_INVALID);
  if (c->format != FMT_JSON)
    fprintf(stderr, "Try: tenon %s%s\n", c->command ? c->command : "help", c->command ? " --help" : "");
  return EXIT_USAGE;
}

void cli_note(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  cli_plain_vprintf(stderr, fmt, ap);
  va_end(ap);
  fputc('\n', stderr);
}
