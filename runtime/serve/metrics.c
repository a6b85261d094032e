/* SPDX-License-Identifier: Apache-2.0
 *
 * /health, /ready, and /metrics in Prometheus' text format (version 0.0.4).
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/serve/inside.h"

static const double bounds_s[SRV_TIMES] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};

void srv_time_add(srv_times *t, int64_t ns) {
  for (int i = 0; i < SRV_TIMES; i++)
    if ((double)ns <= bounds_s[i] * 1e9) atomic_fetch_add(&t->at_most[i], 1);
  atomic_fetch_add(&t->count, 1);
  atomic_fetch_add(&t->sum_us, (unsigned long long)ns / 1000);
}

void srv_health(srv_call *c) { srv_send_json(c, 200, json_pack("{s:s}", "status", "ok")); }

void srv_ready(srv_call *c) {
  const bool draining = atomic_load(&c->server->draining);
  srv_send_json(c, draining ? 503 : 200, json_pack("{s:s}", "status", draining ? "shutting down" : "ready"));
}

static void put_head(FILE *f, const char *name, const char *type, const char *help) {
  fprintf(f, "# HELP tenon_%s %s\n# TYPE tenon_%s %s\n", name, help, name, type);
}

static void put_times(FILE *f, const char *name, const char *help, srv_times *t) {
  put_head(f, name, "histogram", help);
  for (int i = 0; i < SRV_TIMES; i++)
    fprintf(f, "tenon_%s_bucket{le=\"%g\"} %llu\n", name, bounds_s[i], atomic_load(&t->at_most[i]));
  const unsigned long long n = atomic_load(&t->count);
  fprintf(f, "tenon_%s_bucket{le=\"+Inf\"} %llu\ntenon_%s_sum %.6f\ntenon_%s_count %llu\n", name, n, name,
          (double)atomic_load(&t->sum_us) / 1e6, name, n);
}

static void put_counters(FILE *f, srv_metrics *m) {
  put_head(f, "requests_total", "counter", "Requests by how they ended.");
  fprintf(f, "tenon_requests_total{result=\"ok\"} %llu\n", atomic_load(&m->ok));
  fprintf(f, "tenon_requests_total{result=\"refused\"} %llu\n", atomic_load(&m->refused));
  fprintf(f, "tenon_requests_total{result=\"failed\"} %llu\n", atomic_load(&m->failed));
  put_head(f, "disconnects_total", "counter", "Connections that ended before their answer.");
  fprintf(f, "tenon_disconnects_total %llu\n", atomic_load(&m->gone));
  put_head(f, "tokens_total", "counter", "Tokens: computed of prompts, found in a cache, generated.");
  fprintf(f, "tenon_tokens_total{kind=\"prompt\"} %llu\n", atomic_load(&m->prompt_tokens));
  fprintf(f, "tenon_tokens_total{kind=\"kept\"} %llu\n", atomic_load(&m->kept_tokens));
  fprintf(f, "tenon_tokens_total{kind=\"generated\"} %llu\n", atomic_load(&m->new_tokens));
  put_head(f, "embedded_texts_total", "counter", "Texts that became vectors.");
  fprintf(f, "tenon_embedded_texts_total %llu\n", atomic_load(&m->embedded_texts));
}

/* A label's value: backslashes, quotes and ends of lines are escaped. */
static void put_label(FILE *f, const char *s) {
  for (; *s; s++) {
    if (*s == '\\' || *s == '"') fputc('\\', f);
    if (*s == '\n')
      fputs("\\n", f);
    else
      fputc(*s, f);
  }
}

static void put_models(FILE *f, const srv_server *s, const char *name, bool running) {
  for (size_t i = 0; i < s->o->n_models; i++) {
    uint32_t waits, runs;
    if (!s->model[i].slots) continue;
    slots_count(s->model[i].slots, &waits, &runs);
    fprintf(f, "tenon_%s{model=\"", name);
    put_label(f, s->model[i].is->name);
    fprintf(f, "\"} %u\n", running ? runs : waits);
  }
}

/* A line for each model that generates. */
static void put_prefix(FILE *f, const srv_server *s, const char *name, size_t field, const char *more) {
  for (size_t i = 0; i < s->o->n_models; i++) {
    tn_batch_prefixes p;
    uint64_t v;
    if (!s->model[i].slots) continue;
    slots_prefixes(s->model[i].slots, &p);
    memcpy(&v, (const char *)&p + field, sizeof v);
    fprintf(f, "tenon_%s{model=\"", name);
    put_label(f, s->model[i].is->name);
    fprintf(f, "\"%s} %llu\n", more, (unsigned long long)v);
  }
}

static void put_prefixes(FILE *f, const srv_server *s) {
  static const char in_slot[] = ",from=\"slot\"", in_store[] = ",from=\"store\"";
  put_head(f, "prefix_hits_total", "counter", "Prompts whose beginning did not run again: a slot had it, or it was kept beyond slots.");
  put_prefix(f, s, "prefix_hits_total", offsetof(tn_batch_prefixes, from_slots), in_slot);
  put_prefix(f, s, "prefix_hits_total", offsetof(tn_batch_prefixes, from_store), in_store);
  put_head(f, "prefix_tokens_total", "counter", "Tokens of these beginnings.");
  put_prefix(f, s, "prefix_tokens_total", offsetof(tn_batch_prefixes, tokens_from_slots), in_slot);
  put_prefix(f, s, "prefix_tokens_total", offsetof(tn_batch_prefixes, tokens_from_store), in_store);
  put_head(f, "prefix_bytes", "gauge", "Memory of beginnings that are kept beyond slots.");
  put_prefix(f, s, "prefix_bytes", offsetof(tn_batch_prefixes, bytes), "");
  put_head(f, "prefix_dropped_total", "counter", "Pieces of beginnings that made room for others.");
  put_prefix(f, s, "prefix_dropped_total", offsetof(tn_batch_prefixes, dropped), "");
}

static void put_guesses(FILE *f, const srv_server *s, bool came) {
  for (size_t i = 0; i < s->o->n_models; i++) {
    tn_batch_guesses g;
    if (!s->model[i].slots) continue;
    slots_guesses(s->model[i].slots, &g);
    fprintf(f, "tenon_guesses_%s_total{model=\"", came ? "accepted" : "tried");
    put_label(f, s->model[i].is->name);
    fprintf(f, "\"} %llu\n", (unsigned long long)(came ? g.came : g.tried));
  }
}

static void put_loaded(FILE *f, srv_server *s) {
  put_head(f, "model_loaded", "gauge", "1: the model is in memory.");
  for (size_t i = 0; i < s->o->n_models; i++) {
    fprintf(f, "tenon_model_loaded{model=\"");
    put_label(f, s->model[i].is->name);
    fprintf(f, "\"} %d\n", s->model[i].there);
  }
  put_head(f, "models_bytes", "gauge", "Of --models-mb, what models in memory take at most.");
  fprintf(f, "tenon_models_bytes %llu\n", (unsigned long long)s->models_bytes);
  put_head(f, "model_changes_total", "counter", "Models that came into memory for a request, and that went for others.");
  fprintf(f, "tenon_model_changes_total{to=\"memory\"} %llu\n", atomic_load(&s->metrics.loads));
  fprintf(f, "tenon_model_changes_total{to=\"nowhere\"} %llu\n", atomic_load(&s->metrics.unloads));
}

static long long resident_bytes(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  long long pages = 0;
  if (f && fscanf(f, "%*s %lld", &pages) != 1) pages = 0;
  if (f) fclose(f);
  return pages * sysconf(_SC_PAGESIZE);
}

void srv_show_metrics(srv_call *c) {
  srv_server *s = c->server;
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (!f) {
    srv_refuse(&c->refusal, 503, "no_memory", NULL, "out of memory");
    return;
  }
  put_counters(f, &s->metrics);
  put_times(f, "first_token_seconds", "From the request to its first token.", &s->metrics.first_token);
  put_times(f, "answer_seconds", "From the request to the end of its answer.", &s->metrics.whole);
  pthread_mutex_lock(&s->models_lock);
  put_loaded(f, s);
  put_head(f, "waiting", "gauge", "Texts that wait for a slot.");
  put_models(f, s, "waiting", false);
  put_head(f, "running", "gauge", "Texts that have a slot.");
  put_models(f, s, "running", true);
  put_prefixes(f, s);
  put_head(f, "guesses_tried_total", "counter", "Tokens of --lookup and --draft that steps tried.");
  put_guesses(f, s, false);
  put_head(f, "guesses_accepted_total", "counter", "Those of them that answers have.");
  put_guesses(f, s, true);
  pthread_mutex_unlock(&s->models_lock);
  put_head(f, "device_losses_total", "counter", "Devices lost while in use; models went on elsewhere.");
  fprintf(f, "tenon_device_losses_total %u\n", tn_runtime_losses(s->o->rt, NULL));
  put_head(f, "resident_bytes", "gauge", "Memory of the process, mapped files included.");
  fprintf(f, "tenon_resident_bytes %lld\n", resident_bytes());
  put_head(f, "uptime_seconds", "gauge", "Since the server began.");
  fprintf(f, "tenon_uptime_seconds %.3f\n", (double)(tni_now_ns() - s->began_ns) / 1e9);
  if (fclose(f) != 0) {
    free(text);
    text = NULL;
  }
  srv_send_text(c, 200, "text/plain; version=0.0.4; charset=utf-8", text);
}
