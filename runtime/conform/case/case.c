/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/case/case.h"
#include "runtime/base/json.h"
#include "runtime/conform/case/sink.h"

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Lines of one kind that a case may write; the rest are counted. */
enum { MAX_LINES = 12 };

static void line_write(const tni_cf *cf, const char *kind, const char *text) {
  const tni_cf_sink *s = cf->sink;
  json_t *o = json_object(), *t = json_string(text);
  json_object_set_new(o, kind, t ? t : json_string("(text that is not UTF-8)"));
  json_dumpf(o, s->out, JSON_COMPACT);
  fputc('\n', s->out);
  fflush(s->out);
  json_decref(o);
}

static void finding_say(tni_cf *cf, unsigned kind, const char *fmt, va_list ap) TN_PRINTF(3, 0);
static void finding_say(tni_cf *cf, unsigned kind, const char *fmt, va_list ap) {
  static const char *const kinds[TNI_CF_SAYS] = {"fail", "skip", "note"};
  char text[1024];
  if (((tni_cf_sink *)cf->sink)->n_lines[kind]++ >= MAX_LINES) return;
  vsnprintf(text, sizeof text, fmt, ap);
  line_write(cf, kinds[kind], text);
}

void tni_cf_fail(tni_cf *cf, const char *fmt, ...) {
  va_list ap;
  cf->verdict = TNI_CF_FAIL;
  cf->n_findings++;
  va_start(ap, fmt);
  finding_say(cf, TNI_CF_SAYS_FAIL, fmt, ap);
  va_end(ap);
}

void tni_cf_skip(tni_cf *cf, const char *fmt, ...) {
  va_list ap;
  if (cf->verdict == TNI_CF_PASS) cf->verdict = TNI_CF_SKIP;
  va_start(ap, fmt);
  finding_say(cf, TNI_CF_SAYS_SKIP, fmt, ap);
  va_end(ap);
}

void tni_cf_note(tni_cf *cf, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  finding_say(cf, TNI_CF_SAYS_NOTE, fmt, ap);
  va_end(ap);
}

/* --- random numbers ---------------------------------------------------------------------------------------------- */

uint64_t tni_cf_rng_next(tni_cf_rng *r) {
  uint64_t z = r->s += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static tni_cf_rng seeded(uint64_t seed, uint64_t stream) {
  tni_cf_rng r = {seed ^ (stream + 1) * UINT64_C(0xd1342543de82ef95)};
  (void)tni_cf_rng_next(&r);
  return r;
}

tni_cf_rng tni_cf_rng_of(const tni_cf *cf, uint64_t stream) { return seeded(cf->seed, stream); }

double tni_cf_rng_unit(tni_cf_rng *r) { return (double)(tni_cf_rng_next(r) >> 11) * 0x1p-53; }

double tni_cf_rng_normal(tni_cf_rng *r) {
  const double u = 1 - tni_cf_rng_unit(r), v = tni_cf_rng_unit(r);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* FNV-1a of the name: a case has its own numbers whatever runs beside it. */
static uint64_t mixed_seed(uint64_t seed, const char *name) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (; *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  tni_cf_rng r = {seed ^ h};
  return tni_cf_rng_next(&r);
}

tni_cf_rng tni_cf_rng_named(const tni_cf *cf, const char *name, uint64_t stream) {
  return seeded(mixed_seed(cf->run_seed, name), stream);
}

const char *tni_cf_option(const tni_cf_subject *s, const char *key) {
  const size_t n = strlen(key);
  for (uint32_t i = s->n_options; i-- > 0;)
    if (!strncmp(s->options[i], key, n) && s->options[i][n] == '=') return s->options[i] + n + 1;
  return NULL;
}

/* --- lengths ------------------------------------------------------------------------------------------------------ */

bool tni_cf_needs_phases(const tni_cf_listing *l) {
  for (uint32_t i = 0; i < l->n_claimed; i++) {
    const tni_cf_claimed *c = &l->claimed[i];
    if (c->n_lengths) return true;
    if (i && !strcmp(c->graph, c[-1].graph) && c->verdict != c[-1].verdict) return true;
  }
  return false;
}

static bool allows(const tni_cf_claimed *c, int64_t length) {
  for (uint32_t i = 0; i < c->n_lengths; i++)
    if (c->lengths[i] == length) return true;
  return false;
}

uint32_t tni_cf_lengths(const tni_cf_listing *l, uint32_t phase, int64_t out[TNI_CF_LENGTHS]) {
  const tni_cf_claimed *first = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n_claimed && !first; i++)
    if (l->claimed[i].phase == phase && l->claimed[i].n_lengths) first = &l->claimed[i];
  for (uint32_t k = 0; first && k < first->n_lengths; k++) {
    bool by_all = true;
    for (uint32_t i = 0; i < l->n_claimed && by_all; i++) {
      const tni_cf_claimed *c = &l->claimed[i];
      by_all = c->phase != phase || !c->n_lengths || allows(c, first->lengths[k]);
    }
    if (by_all) out[n++] = first->lengths[k];
  }
  return n;
}

/* --- the worker's part -------------------------------------------------------------------------------------------- */

static atomic_bool has_left; /* of the process: no case follows this one */
void tni_cf_leave(void) { atomic_store(&has_left, true); }
bool tni_cf_has_left(void) { return atomic_load(&has_left); }

static void end_write(tni_cf *cf) {
  static const char *const ends[] = {"pass", "fail", "skip"};
  ((tni_cf_sink *)cf->sink)->n_lines[TNI_CF_SAYS_NOTE] = 0; /* there is room for one more */
  if (cf->n_findings > MAX_LINES) tni_cf_note(cf, "%u findings in all", cf->n_findings);
  line_write(cf, "end", ends[cf->verdict]);
}

void tni_cf_end_here(tni_cf *cf) {
  if (cf->verdict == TNI_CF_PASS) tni_cf_fail(cf, "an item is not done");
  end_write(cf);
  _exit(0);
}

uint32_t tni_cf_run_case(const tni_cf_case *c, const tni_cf_listing *l, uint64_t seed, FILE *out) {
  tni_cf_sink sink = {.out = out};
  tni_cf cf = {.subject = l->subject,
               .listing = l,
               .name = c->name,
               .seed = mixed_seed(seed, c->name),
               .run_seed = seed,
               .arena = tni_arena_create(),
               .sink = &sink};
  if (cf.arena)
    c->run(&cf, c->arg);
  else
    tni_cf_fail(&cf, "out of memory");
  if (tni_cf_has_left()) tni_cf_end_here(&cf);
  tni_arena_destroy(cf.arena);
  end_write(&cf);
  return cf.verdict;
}
