/* SPDX-License-Identifier: Apache-2.0
 *
 * One generation as a trace in the Chrome format (Perfetto opens it): a track per engine, a process per clock: "wall",
 * "device" (a device's own) and "virtual" (a simulated one's). Each begins at its own zero. With --summary: where the
 * time goes (parts/).
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/cli/generate.h"
#include "runtime/cli/parts/parts.h"

enum { MAX_TRACKS = 64 };

/* Clocks by tn_trace_event.clock, each a process of its own: their times have nothing to do with each other. */
enum { CLOCKS = 3 };
static const char *const clock_names[CLOCKS] = {"wall", "device", "virtual"};

typedef struct tracer {
  FILE *f;      /* or NULL */
  parts *parts; /* or NULL */
  char *tracks[MAX_TRACKS];
  uint32_t clock_of[MAX_TRACKS];
  int n_tracks;
  int64_t zero[CLOCKS];
  bool seen[CLOCKS];
  unsigned long long events;
} tracer;

static void write_string(FILE *f, const char *s) {
  json_t *j = json_string(s);
  char *text = j ? json_dumps(j, JSON_ENCODE_ANY) : NULL;
  fputs(text ? text : "\"?\"", f);
  free(text);
  json_decref(j);
}

static void name_track(tracer *t, uint32_t clock, int tid, const char *what, const char *text) {
  fprintf(t->f, "%s{\"ph\":\"M\",\"pid\":%u,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":", t->events++ ? ",\n" : "",
          clock + 1, tid, what);
  write_string(t->f, text);
  fprintf(t->f, "}}");
}

static int track_id(tracer *t, const tn_trace_event *e, uint32_t clock) {
  for (int i = 0; i < t->n_tracks; i++)
    if (t->clock_of[i] == clock && strcmp(t->tracks[i], e->track) == 0) return i;
  if (t->n_tracks == MAX_TRACKS) return MAX_TRACKS - 1;
  t->clock_of[t->n_tracks] = clock;
  t->tracks[t->n_tracks] = strdup(e->track);
  name_track(t, clock, t->n_tracks, "thread_name", e->track);
  return t->n_tracks++;
}

static void write_event(tracer *t, const tn_trace_event *e) {
  const uint32_t clock = e->clock < CLOCKS ? e->clock : 1;
  if (!t->seen[clock]) {
    name_track(t, clock, 0, "process_name", clock_names[clock]);
    t->zero[clock] = e->start;
    t->seen[clock] = true;
  }
  int tid = track_id(t, e, clock);
  fprintf(t->f, "%s{\"ph\":\"X\",\"pid\":%u,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":", t->events++ ? ",\n" : "",
          clock + 1, tid, (double)(e->start - t->zero[clock]) / 1e3, (double)(e->end - e->start) / 1e3);
  write_string(t->f, e->name);
  fprintf(t->f, ",\"args\":{\"step\":%u,\"bytes\":%llu,\"ops\":\"%s\"}}", e->step, (unsigned long long)e->bytes,
          e->ops);
}

static void on_event(void *user, const tn_trace_event *e) {
  tracer *t = user;
  if (t->parts) parts_task(t->parts, e);
  if (t->f) write_event(t, e);
}

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  (void)id, (void)text, (void)n;
  if (user) parts_token(user);
  return 0;
}

static tn_status cannot_write(cli *c, const char *path) {
  return cli_saved(c, cli_error(&c->err, TN_E_IO, path, "cannot write '%s': %s", path, strerror(errno)));
}

static tn_status trace_generation(cli *c, tn_lm *lm, tracer *t, const sampling_opts *d, const tn_gen_params *p,
                                  const int32_t *ids, size_t n, tn_gen_result *res) {
  tn_chat *chat = NULL;
  tn_status st = tn_chat_create(lm, &chat, &c->err);
  if (st == TN_OK) st = tn_chat_draft(chat, d->draft_lm, (uint32_t)d->draft_tokens, &c->err);
  if (st == TN_OK) tn_chat_trace(chat, on_event, t);
  cli_cancel_chat(chat);
  if (t->parts) parts_begin(t->parts);
  if (st == TN_OK) st = tn_generate_ids(chat, ids, n, p, on_token, t->parts, res, &c->err);
  if (t->parts) parts_end(t->parts);
  cli_cancel_chat(NULL);
  tn_chat_destroy(chat);
  return st;
}

typedef struct trace_opts {
  char *path;
  int summary;
} trace_opts;

static int trace_model(cli *c, tn_lm *lm, gen_opts *g, const trace_opts *o, const char *model, const char *prompt,
                       size_t n) {
  tn_gen_params p;
  int32_t *ids = NULL;
  size_t n_ids = 0;
  int rc = gen_params(c, g, lm, &p);
  if (!rc) rc = gen_ids(c, g, lm, prompt, n, &ids, &n_ids);
  if (rc) return rc;
  parts sums = {0};
  tracer t = {.f = o->path ? fopen(o->path, "w") : NULL, .parts = o->summary ? &sums : NULL};
  if (o->path && !t.f) {
    tn_free(ids);
    return cli_fail(c, cannot_write(c, o->path));
  }
  if (t.f) fprintf(t.f, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  tn_gen_result res = {.h = {sizeof res, 1, 0}};
  tn_status st = trace_generation(c, lm, &t, &g->sampling, &p, ids, n_ids, &res);
  tn_free(ids);
  if (t.f) fprintf(t.f, "\n]}\n");
  if (t.f && (errno = tni_close_written(t.f)) != 0 && st == TN_OK) st = cannot_write(c, o->path);
  for (int i = 0; i < t.n_tracks; i++) free(t.tracks[i]);
  if (st != TN_OK) {
    rc = cli_fail(c, st);
  } else {
    gen_summary(&res);
    if (o->path) cli_note("%llu events on %d tracks in %s", t.events, t.n_tracks, o->path);
    if (o->summary) rc = cli_print_parts(c, &sums, model, res.prompt_tokens);
  }
  parts_finish(&sums);
  return rc;
}

int cmd_trace(int argc, const char **argv) {
  cli c = {.command = "trace"};
  gen_opts g;
  trace_opts o = {0};
  char *prompt = NULL;
  gen_options(&g);
  g.n = 16;
  const opt_row own[] = {{"output", 'o', OPT_TEXT, &o.path, "FILE", NULL, "the trace file (JSON)", NULL},
                         {"summary", 0, OPT_FLAG, &o.summary, NULL, NULL,
                          "where the time goes by what tasks compute, in the format that --format names", NULL},
                         OPT_ROWS_END};
  size_t n = 0;
  int rc = cli_parse(&c, argc, argv,
                     &(cli_use){.usage = "MODEL -p TEXT [-o FILE] [--summary] [options]",
                                .operand = "MODEL",
                                .context = true,
                                .own = own,
                                .more = g.rows,
                                .more_title = "Generation:"});
  tn_lm *lm = NULL;
  if (!rc && !o.path && !o.summary) rc = cli_usage(&c, "-o FILE or --summary is needed");
  if (!rc) rc = gen_prompt(&c, &g, &prompt, &n);
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = gen_load_fit(&c, c.operand, 0, &lm);
  if (!rc) rc = trace_model(&c, lm, &g, &o, c.operand, prompt, n);
  sampling_finish(&g.sampling);
  tn_lm_destroy(lm);
  free(prompt);
  cli_finish(&c);
  return rc;
}
