/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"
#include "runtime/plugin/check.h"
#include "runtime/plugin/child.h"

enum { SUPERVISOR_MS = 500 }; /* that it has to end what the plugin started */

/* -------------------------------------------------------------------------------------------------------- request */

char *tni_probe_text_of_path(const char *path) {
  char *text = path ? malloc(2 * strlen(path) + 1) : NULL;
  size_t n = 0;
  for (; text && *path; path++) {
    const unsigned char c = (unsigned char)*path;
    if (c >= 0x80) text[n++] = (char)(0xc0 | c >> 6);
    text[n++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3f) : c);
  }
  if (text) text[n] = '\0';
  return text;
}

char *tni_probe_path_of_text(const char *text) {
  char *path = text ? malloc(strlen(text) + 1) : NULL;
  size_t n = 0;
  for (; path && *text; text++) {
    const unsigned char c = (unsigned char)*text;
    path[n++] = (char)(c >= 0x80 && text[1] ? (c & 3) << 6 | (*++text & 0x3f) : c);
  }
  if (path) path[n] = '\0';
  return path;
}

static json_t *options_json(const tni_profile_plugin *s) {
  json_t *list = json_array();
  for (uint32_t i = 0; s && i < s->n_options; i++) {
    const tni_profile_option *p = &s->options[i];
    json_t *o = json_pack("[s, s, i, i, i, i, b]", p->key, p->value, (int)p->line, (int)p->column, (int)p->value_line,
                          (int)p->value_column, p->quoted);
    if (json_array_append_new(list, o) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return list;
}

/* The request as one line of JSON, malloc'd; NULL without memory. */
static char *probe_request(const tni_registry_opts *o, const tni_probe_what *what) {
  char *folder = tni_probe_text_of_path(what->folder), *cache = tni_probe_text_of_path(o->cache_dir),
       *file = tni_probe_text_of_path(what->profile_file), *text = NULL, *line = NULL;
  json_t *options = options_json(what->section), *j = NULL;
  if (options && folder && file && (cache || !o->cache_dir))
    j = json_pack("{s:s, s:s, s:s?, s:s, s:i, s:i, s:I, s:b, s:b, s:b, s:i, s:O}", "name", what->name, "folder", folder,
                  "cache", cache, "file", file, "line", what->section ? (int)what->section->line : 0, "workers",
                  (int)o->max_workers, "memory", (json_int_t)o->memory_limit, "checked", o->checked, "privileged",
                  o->privileged, "shared", o->allow_shared_writable, "confine", (int)what->confine, "options", options);
  if (j) text = json_dumps(j, JSON_COMPACT);
  json_decref(j);
  json_decref(options);
  free(folder);
  free(cache);
  free(file);
  if (text && (line = malloc(strlen(text) + 2))) sprintf(line, "%s\n", text);
  free(text);
  return line;
}

static bool send_all(int fd, const char *p, size_t n) {
  while (n) {
    const ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

/* --------------------------------------------------------------------------------------------------------- answer */

typedef struct dialogue {
  const char *name, *so;
  tni_child child;
  char *buf; /* [TNI_PROBE_LINE] of what is not a whole line yet */
  size_t have;
  char at[64]; /* the last call that the child said it makes; "": the plugin's turn has not come */
  tni_walls walls;
  bool passed, refused, misconduct;
  bool no_memory; /* here, for a line of the answer */
  bool profile_mistake;
  tn_error said;
} dialogue;

static void copy_text(char *dst, size_t size, json_t *from) {
  const char *s = json_string_value(from);
  snprintf(dst, size, "%s", s ? s : "");
  for (; *dst; dst++)
    if ((unsigned char)*dst < 0x20) *dst = '?';
}

static void read_line(dialogue *d, const char *text, size_t n) {
  json_t *j = json_loadb(text, n, 0, NULL), *v;
  if (!j && tni_json_short()) d->no_memory = true;
  if ((v = json_object_get(j, "walls")) && !d->at[0]) { /* later the plugin might say it */
    d->walls.stand = (uint32_t)json_integer_value(json_object_get(v, "stand")) & ((1u << TNI_WALLS) - 1);
    d->walls.landlock = (uint32_t)json_integer_value(json_object_get(v, "landlock"));
  }
  if ((v = json_object_get(j, "at"))) copy_text(d->at, sizeof d->at, v);
  if ((v = json_object_get(j, "misconduct"))) {
    d->misconduct = true;
    copy_text(d->said.message, sizeof d->said.message, v);
  }
  if ((v = json_object_get(j, "refused"))) {
    d->refused = true;
    d->said.code = (int32_t)json_integer_value(json_object_get(v, "status"));
    d->said.vendor_code = (int32_t)json_integer_value(json_object_get(v, "vendor"));
    d->profile_mistake = json_is_true(json_object_get(v, "profile"));
    copy_text(d->said.where, sizeof d->said.where, json_object_get(v, "where"));
    copy_text(d->said.message, sizeof d->said.message, json_object_get(v, "message"));
  }
  if (json_object_get(j, "passed")) d->passed = true;
  json_decref(j);
}

/* False: the child sends what is no line. */
static bool take_answer(dialogue *d) {
  const ssize_t n = recv(d->child.channel, d->buf + d->have, TNI_PROBE_LINE - d->have, MSG_DONTWAIT);
  if (n <= 0) return n < 0 && (errno == EINTR || errno == EAGAIN);
  d->have += (size_t)n;
  char *from = d->buf, *end;
  while ((end = memchr(from, '\n', d->have - (size_t)(from - d->buf)))) {
    read_line(d, from, (size_t)(end - from));
    from = end + 1;
  }
  d->have -= (size_t)(from - d->buf);
  memmove(d->buf, from, d->have);
  return d->have < TNI_PROBE_LINE;
}

/* Reads until the child closes the channel, which it does by ending. True: it did so in time: ms from when it calls the
 * plugin. Until then a slow machine may be starting a program, which is not the plugin's time. */
static bool listen_to(dialogue *d, int64_t ms) {
  int64_t until = tni_now_ns() + (ms > TNI_PROBE_MS ? ms : TNI_PROBE_MS) * 1000000;
  for (;;) {
    const int64_t left = (until - tni_now_ns()) / 1000000;
    if (left <= 0) return false;
    const int got = tni_child_wait(&d->child, (int)left);
    const bool waiting = !d->at[0];
    if (got == 0) return true;
    if (got > 0 && !take_answer(d)) return true;
    if (d->misconduct) return true; /* all is said; what it left running may hold the channel open */
    if (waiting && d->at[0]) until = tni_now_ns() + ms * 1000000;
  }
}

static tn_status fail_probe(const dialogue *d, tn_status st, tn_error *err, const char *what) {
  char said[160];
  tni_child_last_lines(&d->child, said, sizeof said);
  return tni_fail(err, st, d->so, "plugin '%s' %s%s%s", d->name, what, said[0] ? "; it had printed: " : "", said);
}

static tn_status probe_verdict(const dialogue *d, bool in_time, int64_t ms, const tni_child_end *end,
                               tni_probe_result *out, tn_error *err) {
  char what[320], how[96];
  if (d->no_memory) return tni_fail_memory(err, d->name);
  tni_child_end_text(end, how, sizeof how);
  if (!d->at[0] && !d->refused) { /* the helper did not come to the plugin, which did nothing then */
    snprintf(what, sizeof what, "is probed in a process of its own: tenon-helper did not start: %s",
             in_time ? how : "nothing came back");
    return fail_probe(d, TN_E_UNAVAILABLE, err, what);
  }
  out->misconduct = true;
  if (d->misconduct) {
    snprintf(what, sizeof what, "%s", d->said.message);
    return fail_probe(d, TN_E_INTERNAL, err, what);
  }
  if (!in_time) {
    snprintf(what, sizeof what, "hangs in %s: nothing came back for %.3g s", d->at, (double)ms / 1e3);
    return fail_probe(d, TN_E_INTERNAL, err, what);
  }
  const bool orderly = !end->known || (!end->signal && end->status == TNI_PROBE_EXIT);
  if (!orderly || (!d->passed && !d->refused)) {
    snprintf(what, sizeof what, "%s its process in %s: %s", end->signal ? "crashed" : "ended", d->at, how);
    return fail_probe(d, TN_E_INTERNAL, err, what);
  }
  out->misconduct = false;
  if (d->passed) return TN_OK;
  out->profile_mistake = d->profile_mistake;
  const tn_status st = d->said.code != TN_OK ? d->said.code : TN_E_INTERNAL;
  tni_fail(err, st, d->said.where, "%s", d->said.message);
  if (err) err->vendor_code = d->said.vendor_code;
  return st;
}

tn_status tni_probe_run(const tni_registry_opts *o, const tni_probe_what *what, tni_probe_result *out, tn_error *err) {
  static const char *const args[] = {"probe", NULL};
  const int64_t ms = o->probe_ms > 0 ? o->probe_ms : TNI_PROBE_MS, begun = tni_now_ns();
  *out = (tni_probe_result){.ms = 0};
  dialogue d = {.name = what->name, .so = what->so, .walls.level = what->confine};
  tni_error_init(&d.said);
  char *request = probe_request(o, what);
  d.buf = malloc(TNI_PROBE_LINE);
  tn_status st = request && d.buf ? tni_child_spawn(o->helper, args, &d.child, err) : tni_fail_memory(err, what->name);
  if (st == TN_OK) {
    (void)!send_all(d.child.channel, request, strlen(request)); /* a child that is gone says so by its end */
    const bool in_time = listen_to(&d, ms);
    const tni_child_end end = tni_child_finish(&d.child, in_time ? 1000 : SUPERVISOR_MS);
    st = probe_verdict(&d, in_time, ms, &end, out, err);
  } else if (err && st == TN_E_UNAVAILABLE) {
    tni_error_prefix(err, "plugin '%s' is probed in a process of its own", what->name);
  }
  out->walls = d.walls;
  out->ms = (double)(tni_now_ns() - begun) / 1e6;
  free(request);
  free(d.buf);
  return st;
}
