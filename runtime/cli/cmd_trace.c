/* SPDX-License-Identifier: Apache-2.0
 *
 * One generation as a trace in the Chrome format (Perfetto opens it): a track per engine, a process per clock: "wall",
 * "device" (a device's own) and "virtual" (a simulated one's). Each begins at its own zero.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/generate.h"

enum { MAX_TRACKS = 64 };

/* Clocks by tn_trace_event.clock, each a process of its own: their times have nothing to do with each other. */
enum { CLOCKS = 3 };
static const char *const clock_names[CLOCKS] = {"wall", "device", "virtual"};

typedef struct tracer {
  FILE *f;
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

static void name(tracer *t, uint32_t clock, int tid, const char *what, const char *text) {
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
  name(t, clock, t->n_tracks, "thread_name", e->track);
  return t->n_tracks++;
}

static void on_event(void *user, const tn_trace_event *e) {
  tracer *t = user;
  const uint32_t clock = e->clock < CLOCKS ? e->clock : 1;
  if (!t->seen[clock]) {
    name(t, clock, 0, "process_name", clock_names[clock]);
    t->zero[clock] = e->start;
    t->seen[clock] = true;
  }
  int tid = track_id(t, e, clock);
  fprintf(t->f, "%s{\"ph\":\"X\",\"pid\":%u,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":", t->events++ ? ",\n" : "",
          clock + 1, tid, (double)(e->start - t->zero[clock]) / 1e3, (double)(e->end - e->start) / 1e3);
  write_string(t->f, e->name);
  fprintf(t->f, ",\"args\":{\"step\":%u,\"bytes\":%llu}}", e->step, (unsigned long long)e->bytes);
}

static int trace(cli *c, tn_lm *lm, const gen_opts *g, const char *path, const char *prompt, size_t n) {
  tn_gen_params p;
  int rc = gen_params(c, g, lm, &p);
  if (rc) return rc;
  tracer t = {.f = fopen(path, "w")};
  if (!t.f) {
    snprintf(c->err.message, sizeof c->err.message, "cannot write '%s'", path);
    return cli_fail(c, TN_E_IO);
  }
  fprintf(t.f, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  tn_chat *chat = NULL;
  tn_gen_result res = {.h = {sizeof res, 1, 0}};
  tn_status st = tn_chat_create(lm, &chat, &c->err);
  if (st == TN_OK) tn_chat_trace(chat, on_event, &t);
  cli_cancel_chat(chat);
  if (st == TN_OK) st = tn_generate(chat, prompt, n, &p, NULL, NULL, &res, &c->err);
  cli_cancel_chat(NULL);
  fprintf(t.f, "\n]}\n");
  if (fclose(t.f) != 0 && st == TN_OK) {
    snprintf(c->err.message, sizeof c->err.message, "cannot write '%s'", path);
    st = TN_E_IO;
  }
  tn_chat_destroy(chat);
  for (int i = 0; i < t.n_tracks; i++) free(t.tracks[i]);
  if (st != TN_OK) return cli_fail(c, st);
  gen_summary(&res);
  cli_note("%llu events on %d tracks in %s", t.events, t.n_tracks, path);
  return EXIT_DONE;
}

int cmd_trace(int argc, const char **argv) {
  cli c = {.command = "trace"};
  gen_opts g;
  char *path = NULL, *prompt = NULL;
  struct poptOption gen[13];
  gen_options(&g, gen);
  g.n = 16;
  struct poptOption own[] = {{"output", 'o', POPT_ARG_STRING, &path, 0, "the trace file (JSON)", "FILE"},
                             {NULL, 0, POPT_ARG_INCLUDE_TABLE, gen, 0, "Generation (default: 16 tokens):", NULL},
                             POPT_TABLEEND};
  poptContext pc;
  const char **rest;
  size_t n = 0;
  int done, rc = cli_parse(&c, argc, argv, own, "MODEL -p TEXT -o FILE [options]", &pc, &rest, &done);
  tn_lm *lm = NULL;
  if (!rc && (!rest[0] || rest[1])) rc = cli_usage(&c, "one MODEL is needed");
  if (!rc && !path) rc = cli_usage(&c, "-o FILE is needed");
  if (!rc) rc = gen_prompt(&c, &g, &prompt, &n);
  if (!rc) rc = cli_open(&c, 0);
  if (!rc) rc = gen_load(&c, rest[0], 0, &lm);
  if (!rc) rc = trace(&c, lm, &g, path, prompt, n);
  tn_lm_destroy(lm);
  free(prompt);
  free(path);
  gen_options_finish(&g);
  cli_finish(&c, pc);
  return rc;
}
