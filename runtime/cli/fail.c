/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong: texts on stderr, one JSON object on stdout, exit codes.
 */
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/cli/cli.h"

/* --- how names are shown ------------------------------------------------------------------------------------------
 * They come from models, profiles and plugins, and a terminal obeys what stands in them: control characters are shown
 * as \xNN. What a model generates (`tenon run`) is the user's and stays as it is. */

/* Bytes of the control character at s (C0, DEL, or C1 as UTF-8); 0: it is none. */
static size_t control_at(const char *s) {
  const unsigned char c = (unsigned char)s[0], d = c ? (unsigned char)s[1] : 0;
  if (c < 0x20 || c == 0x7f) return 1;
  return c == 0xc2 && d >= 0x80 && d < 0xa0 ? 2 : 0;
}

static bool is_plain(const char *s) {
  for (; *s; s++)
    if (control_at(s)) return false;
  return true;
}

char *cli_escape(const char *s) {
  char *out = malloc(4 * strlen(s) + 1), *to = out;
  if (!out) tni_json_lacked();
  while (out && *s) {
    const size_t n = control_at(s);
    if (!n) *to++ = *s++;
    for (size_t i = 0; i < n; i++) to += sprintf(to, "\\x%02x", (unsigned char)*s++);
  }
  if (out) *to = '\0';
  return out;
}

void cli_escape_json(json_t *j) {
  const char *key;
  void *next;
  json_t *v;
  size_t i;
  if (json_is_string(j) && !is_plain(json_string_value(j))) {
    char *text = cli_escape(json_string_value(j));
    if (!text || json_string_set(j, text) != 0) tni_json_lacked();
    free(text);
  }
  json_object_foreach_safe(j, next, key, v) cli_escape_json(v);
  json_array_foreach(j, i, v) cli_escape_json(v);
}

static void write_text(const char *s) {
  while (*s) {
    const size_t n = *s == '\n' ? 0 : control_at(s);
    if (!n) fputc(*s++, stderr);
    for (size_t i = 0; i < n; i++) fprintf(stderr, "\\x%02x", (unsigned char)*s++);
  }
}

enum { LINE = 960 }; /* a pipe that can be written to takes 4,096 bytes at once; each of a line may become four */
static struct {
  bool on;
  pthread_mutex_t lock;
  unsigned long long lost;
} unread = {.lock = PTHREAD_MUTEX_INITIALIZER};

void cli_lose_unread(void) { unread.on = true; }

/* Lines of other threads wait, so that there is room for this one. */
static void write_or_lose(char *text) {
  struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
  if (strlen(text) >= LINE) memcpy(text + LINE - 5, "...\n", 5);
  pthread_mutex_lock(&unread.lock);
  if (poll(&p, 1, 0) == 0) {
    unread.lost++;
  } else {
    if (unread.lost) fprintf(stderr, "%llu lines before this one were not written: nobody read them\n", unread.lost);
    unread.lost = 0;
    write_text(text);
  }
  pthread_mutex_unlock(&unread.lock);
}

/* What was printed before stands before it, also where both streams are one pipe. */
static void say_text(char *text) {
  if (unread.on) {
    write_or_lose(text);
    return;
  }
  (void)cli_streams_flush();
  write_text(text);
}

void cli_vsay(const char *fmt, va_list ap) {
  char text[16384];
  vsnprintf(text, sizeof text, fmt, ap);
  say_text(text);
}

void cli_say(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  cli_vsay(fmt, ap);
  va_end(ap);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

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

static void add_schema(json_t *j) {
  enum { SCHEMA = 1 };
  if (json_is_object(j) && !json_object_get(j, "schema")) json_object_set_new(j, "schema", json_integer(SCHEMA));
}

void cli_print_json(json_t *j, size_t flags) {
  add_schema(j);
  json_dumpf(j, stdout, flags);
  putchar('\n');
  json_decref(j);
}

void cli_print_report(const char *text, json_t *more) {
  add_schema(more);
  char *end = more ? json_dumps(more, JSON_INDENT(1)) : NULL;
  if (end) { /* "...\n}" and "{\n ...": one object of both */
    fwrite(text, 1, strlen(text) - 2, stdout);
    printf(",%s\n", end + 1);
  }
  free(end);
  json_decref(more);
}

json_t *cli_parse_report(cli *c, const char *text) {
  json_t *j = json_loads(text, 0, NULL);
  if (!j) tni_json_lacked();
  if (!j) (void)tni_fail_memory(&c->err, "report");
  if (c->format != FMT_JSON) cli_escape_json(j);
  return j;
}

tn_status cli_error(tn_error *err, tn_status st, const char *where, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_error_begin(err);
  tni_vfail(err, st, where, fmt, ap);
  va_end(ap);
  return st;
}

static const char *message_of(const cli *c, tn_status st) {
  return c->err.message[0] ? tn_error_text(&c->err) : st == TN_E_NO_MEMORY ? "out of memory" : "failed without a reason";
}

json_t *cli_error_json(const cli *c, tn_status st) {
  json_t *where = json_string(c->err.where);
  return json_pack("{s:s, s:o, s:o}", "code", tn_status_name(st), "message", tni_json_shown(message_of(c, st)), "where",
                   where ? where : json_string(""));
}

int cli_exit_code(const cli *c, tn_status st) { return st == TN_E_IO && c->unsaved ? EXIT_OUTPUT : exit_code(st); }

int cli_fail(cli *c, tn_status st) {
  const char *message = message_of(c, st);
  if (c->format == FMT_JSON)
    cli_print_json(json_pack("{s:o}", "error", cli_error_json(c, st)), JSON_INDENT(1));
  else if (c->err.where[0] && !strstr(message, c->err.where))
    cli_say("tenon: %s: %s\n", c->err.where, message);
  else
    cli_say("tenon: %s\n", message);
  return cli_exit_code(c, st);
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
  char text[16384];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text - 1, fmt, ap);
  va_end(ap);
  strcat(text, "\n");
  say_text(text);
}
