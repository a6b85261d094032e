/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

#include "runtime/calib/calib.h"

enum { WIDTH = 120, WHOLE_DIGITS = 9, SHORT_DIGITS = 6 };

/* The first thing that fails turns ok off, and nothing is emitted after it. */
typedef struct yaml_writer {
  yaml_emitter_t e;
  bool ok, bad_text;
} yaml_writer;

static void emit_event(yaml_writer *w, yaml_event_t *ev, int made) {
  if (!made)
    w->ok = false;
  else if (w->ok)
    w->ok = yaml_emitter_emit(&w->e, ev) != 0; /* takes the event, also on failure */
  else
    yaml_event_delete(ev);
}

static void write_scalar(yaml_writer *w, const char *text, yaml_scalar_style_t style) {
  yaml_event_t ev;
  const int made =
      yaml_scalar_event_initialize(&ev, NULL, NULL, (const yaml_char_t *)text, (int)strlen(text), 1, 1, style);
  if (!made) w->bad_text = true;
  emit_event(w, &ev, made);
}

static void write_key(yaml_writer *w, const char *k) { write_scalar(w, k, YAML_PLAIN_SCALAR_STYLE); }

/* Quoted: a name may look like a number, a bool or null. */
static void write_text_key(yaml_writer *w, const char *k, const char *v) {
  if (k) write_key(w, k);
  write_scalar(w, v, YAML_DOUBLE_QUOTED_SCALAR_STYLE);
}

static void write_whole(yaml_writer *w, const char *k, uint64_t v) {
  char buf[32];
  if (k) write_key(w, k);
  snprintf(buf, sizeof buf, "%llu", (unsigned long long)v);
  write_scalar(w, buf, YAML_PLAIN_SCALAR_STYLE);
}

static void write_float(yaml_writer *w, const char *k, float v, int digits) {
  char buf[48];
  if (k) write_key(w, k);
  snprintf(buf, sizeof buf, "%.*g", digits, (double)v);
  write_scalar(w, buf, YAML_PLAIN_SCALAR_STYLE);
}

static void open_map(yaml_writer *w, const char *k) {
  yaml_event_t ev;
  if (k) write_key(w, k);
  emit_event(w, &ev, yaml_mapping_start_event_initialize(&ev, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE));
}

static void close_map(yaml_writer *w) {
  yaml_event_t ev;
  emit_event(w, &ev, yaml_mapping_end_event_initialize(&ev));
}

static void open_list(yaml_writer *w, const char *k, yaml_sequence_style_t style) {
  yaml_event_t ev;
  if (k) write_key(w, k);
  emit_event(w, &ev, yaml_sequence_start_event_initialize(&ev, NULL, NULL, 1, style));
}

static void close_list(yaml_writer *w) {
  yaml_event_t ev;
  emit_event(w, &ev, yaml_sequence_end_event_initialize(&ev));
}

static void write_floats(yaml_writer *w, const char *k, const float *v, uint32_t n) {
  open_list(w, k, YAML_FLOW_SEQUENCE_STYLE);
  for (uint32_t i = 0; i < n; i++) write_float(w, NULL, v[i], SHORT_DIGITS);
  close_list(w);
}

/* Channels above are few: only those are written. */
static void write_over(yaml_writer *w, const tn_stats *s) {
  open_map(w, "over");
  open_list(w, "channels", YAML_FLOW_SEQUENCE_STYLE);
  for (uint32_t i = 0; i < s->n; i++)
    if (s->ch_over[i] > 0) write_whole(w, NULL, i);
  close_list(w);
  open_list(w, "counts", YAML_FLOW_SEQUENCE_STYLE);
  for (uint32_t i = 0; i < s->n; i++)
    if (s->ch_over[i] > 0) write_whole(w, NULL, (uint64_t)s->ch_over[i]);
  close_list(w);
  close_map(w);
}

static void write_calib_entry(yaml_writer *w, const tni_calib_entry *e) {
  open_map(w, NULL);
  write_text_key(w, "name", e->name);
  open_list(w, "weights", YAML_FLOW_SEQUENCE_STYLE);
  for (uint32_t i = 0; i < e->n_weights; i++) write_text_key(w, NULL, e->weights[i]);
  close_list(w);
  write_whole(w, "rows", e->stats.rows);
  write_whole(w, "channels", e->stats.n);
  write_float(w, "absmax", e->stats.absmax, WHOLE_DIGITS);
  write_float(w, "p999", e->stats.p999, WHOLE_DIGITS);
  write_over(w, &e->stats);
  write_floats(w, "mean", e->stats.ch_mean, e->stats.n);
  write_floats(w, "mean_square", e->stats.ch_weight, e->stats.n);
  close_map(w);
}

static void write_document(yaml_writer *w, const tni_calib *c) {
  yaml_event_t ev;
  emit_event(w, &ev, yaml_stream_start_event_initialize(&ev, YAML_UTF8_ENCODING));
  emit_event(w, &ev, yaml_document_start_event_initialize(&ev, NULL, NULL, NULL, 1));
  open_map(w, NULL);
  write_whole(w, "tenon_calibration", 1);
  open_map(w, "model");
  write_text_key(w, "name", c->model_name);
  write_text_key(w, "hash", c->model);
  close_map(w);
  open_map(w, "text");
  write_text_key(w, "name", c->text_name);
  write_text_key(w, "hash", c->text);
  write_whole(w, "tokens", c->tokens);
  close_map(w);
  open_list(w, "values", YAML_BLOCK_SEQUENCE_STYLE);
  for (uint32_t i = 0; w->ok && i < c->n_entries; i++) write_calib_entry(w, &c->entries[i]);
  close_list(w);
  close_map(w);
  emit_event(w, &ev, yaml_document_end_event_initialize(&ev, 1));
  emit_event(w, &ev, yaml_stream_end_event_initialize(&ev));
}

static tn_status write_to(const tni_calib *c, FILE *f, const char *path, tn_error *err) {
  yaml_writer w = {.ok = true};
  /* The process's locale may write 0.5 as 0,5. */
  locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
  if (!plain || !yaml_emitter_initialize(&w.e)) {
    if (plain) freelocale(plain);
    return tni_fail_memory(err, path);
  }
  locale_t before = uselocale(plain);
  yaml_emitter_set_output_file(&w.e, f);
  yaml_emitter_set_width(&w.e, WIDTH);
  yaml_emitter_set_unicode(&w.e, 1);
  write_document(&w, c);
  const bool memory = w.e.error == YAML_MEMORY_ERROR;
  yaml_emitter_delete(&w.e);
  uselocale(before);
  freelocale(plain);
  if (w.ok) return TN_OK;
  if (w.bad_text) return tni_fail(err, TN_E_INVALID, path, "a name to be written to '%s' is not UTF-8", path);
  return memory ? tni_fail_memory(err, path)
                : tni_fail(err, tni_errno_status(errno, TN_E_IO), path, "cannot write '%s': %s", path, strerror(errno));
}

tn_status tni_calib_write(const tni_calib *c, const char *path, tn_error *err) {
  const size_t n = strlen(path) + 32;
  char *tmp = malloc(n);
  if (!tmp) return tni_fail_memory(err, path);
  snprintf(tmp, n, "%s.tmp.%ld", path, (long)getpid());
  const int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
  tn_status st = f ? write_to(c, f, path, err) : TN_E_IO;
  bool ok = f && st == TN_OK && fflush(f) == 0 && fsync(fd) == 0;
  const int why = errno;
  if (f)
    ok = fclose(f) == 0 && ok;
  else if (fd >= 0)
    close(fd);
  if (ok && rename(tmp, path) == 0) {
    free(tmp);
    return TN_OK;
  }
  const int e = ok ? errno : why;
  if (fd >= 0) (void)unlink(tmp);
  free(tmp);
  return tni_fail(err, st == TN_OK ? TN_E_IO : st, path, "cannot write '%s': %s", path, strerror(e));
}
