/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of the plugin's own domain. What they compute is the vendor's; that they stay in their memory and give the
 * same bits for the same inputs, whatever lies beside and before, is asked here. Operands come from the shape rule.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/conform/drive/drive.h"
#include "runtime/conform/life/engine.h"
#include "runtime/conform/life/life.h"

enum { MOST_NAMES = 16, MOST_OPERANDS = 8, OTHER_GUARD = 0x3c };

/* What operands after the first are. */
enum { INPUTS, CONSTANTS, NUMBERS, KINDS };

/* --- the rule ----------------------------------------------------------------------------------------------------- */

/* Names of a rule and the dims that they get here; the last of them, which names alone give, are attributes. */
typedef struct names {
  char name[MOST_NAMES][32];
  uint32_t n;
} names;

static uint32_t name_number(names *s, const char *name, size_t n) {
  uint32_t i = 0;
  while (i < s->n && !(strlen(s->name[i]) == n && !memcmp(s->name[i], name, n))) i++;
  if (i == s->n && i < MOST_NAMES && n < sizeof s->name[0]) {
    memcpy(s->name[i], name, n);
    s->name[s->n++][n] = '\0';
  }
  return i;
}

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Dims of names: even ones, which every rule takes; ends of blocks; one of each. */
enum { EVEN, ODD, ONE, SIZES };
static const int widths[SIZES][8] = {{24, 12, 16, 8, 48, 36, 20, 40}, {17, 5, 9, 3, 33, 7, 11, 13}, {1, 1, 1, 1, 1, 1, 1, 1}};

/* One operand's dims, from after its bracket on, as text: a run is S. NULL: no rule that this reads. */
static const char *read_dims(names *s, const char *at, int sizes, char *dims, size_t size) {
  size_t used = 0;
  dims[0] = '\0';
  for (; *at && *at != ']'; at++) {
    if (*at == ' ' || *at == ',') continue;
    size_t n = 0;
    while (is_name(at[n])) n++;
    if (!n || used + 16 > size) return NULL;
    const char *comma = used ? "," : "";
    if (isdigit((unsigned char)*at))
      used += (size_t)snprintf(dims + used, size - used, "%s%.*s", comma, (int)n, at);
    else if (!strncmp(at + n, "...", 3))
      used += (size_t)snprintf(dims + used, size - used, "%sS", comma);
    else
      used += (size_t)snprintf(dims + used, size - used, "%s%d", comma, widths[sizes][name_number(s, at, n) % 8]);
    at += n + (strncmp(at + n, "...", 3) ? 0 : 3) - 1;
  }
  return *at ? at + 1 : NULL;
}

static tn_id random_constant(tni_cn_graph *b, const char *name, const char *dims, tni_cf_rng *r) {
  int64_t d[TN_MAX_RANK], n = 1;
  uint32_t rank = 0;
  for (const char *at = dims; *at && rank < TN_MAX_RANK; at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
    if (*at == 'S') return TN_NONE;
    n *= d[rank++] = strtoll(at, NULL, 10);
  }
  float *x = TNI_NEW_ARRAY(b->g->arena, float, (size_t)n + 1);
  for (int64_t i = 0; x && i < n; i++) x[i] = 0.25f * (float)tni_cf_rng_normal(r);
  return x ? tni_cn_constant(b, name, TN_DT_F32, rank, d, x) : TN_NONE;
}

static tn_id make_operand(tni_cn_graph *b, uint32_t i, int kind, const char *dims, tni_cf_rng *r) {
  char name[16];
  snprintf(name, sizeof name, "x%u", i);
  if (i && kind == CONSTANTS) return random_constant(b, name, dims, r);
  const bool number = i && kind == NUMBERS;
  const tn_id v = tni_cn_value(b, name, TN_VALUE_INPUT, number ? TN_DT_I64 : TN_DT_F32, dims);
  b->operand[b->n_in] = (tni_cn_operand){.kind = number ? 'i' : 'x', .value = v, .limit = 8};
  b->in[b->n_in++] = v;
  return v;
}

/* What the results' dims name and no operand has: INT attributes. */
static uint32_t read_results(names *s, const char *at, tni_raw_attr *a, uint32_t *n_out) {
  const uint32_t known = s->n;
  uint32_t n = 0;
  bool inside = false;
  for (*n_out = 0; *at; at++) {
    *n_out += *at == '[';
    inside = *at == '[' || (inside && *at != ']');
    if (!inside || !isalpha((unsigned char)*at)) continue;
    size_t len = 0;
    while (is_name(at[len])) len++;
    (void)name_number(s, at, len);
    at += len - 1;
  }
  for (uint32_t i = known; i < s->n; i++)
    a[n++] = (tni_raw_attr){.name = s->name[i], .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 2}};
  return n;
}

static bool make_graph(tni_cn_graph *b, const tn_custom_op *o, int kind, int sizes, tni_cf_rng *r) {
  names *s = NULL;
  tni_raw_attr a[MOST_NAMES];
  tn_id in[MOST_OPERANDS];
  uint32_t n = 0;
  char dims[128], name[16];
  if (!tni_cn_begin(b, TN_DT_F32) || !(s = TNI_NEW(b->g->arena, names))) return false;
  const char *at = o->shape, *arrow = strstr(o->shape, "->");
  while (at && arrow && at < arrow && n < MOST_OPERANDS) {
    const char *open = strchr(at, '[');
    if (!open || open > arrow) break;
    const bool absent = memchr(at, '?', (size_t)(open - at)) != NULL;
    at = read_dims(s, open + 1, sizes, dims, sizeof dims);
    if (!at) return false;
    in[n] = absent ? TN_NONE : make_operand(b, n, kind, dims, r);
    if (!absent && in[n] == TN_NONE) return false;
    n++;
  }
  while (n && in[n - 1] == TN_NONE) n--;
  uint32_t n_out = 0;
  const uint32_t n_attr = arrow ? read_results(s, arrow + 2, a, &n_out) : 0;
  if (!arrow || !n_out || n_out > TNI_CN_MAX_OUT) return false;
  for (uint32_t i = 0; i < n_out; i++) {
    snprintf(name, sizeof name, "y%u", i);
    b->out[b->n_out++] = tni_cn_value(b, name, TN_VALUE_ACT, TN_DT_UNDEFINED, "?");
  }
  if (!tni_cn_node(b, o->domain, o->type, o->since ? o->since : 1, in, n, b->out, n_out, a, n_attr)) return false;
  tni_graph_node(b->g, b->node)->custom = o;
  return tni_cn_end(b) && tni_cf_graph_stats(b);
}

/* --- what is asked ------------------------------------------------------------------------------------------------ */

static void protect_inputs(tni_cf_rig *rig, int how) {
  for (uint32_t s = 0; s < rig->d.info->n_slots; s++) {
    const tni_cf_block *b = &rig->i.slot[s].host;
    if (rig->d.info->slots[s]->kind == TN_SLOT_INPUT && b->map) (void)!mprotect(b->map, b->map_bytes - 4096, how);
  }
}

/* The same inputs with other bytes beside them. */
static bool beside(tni_cf_rig *rig, void *const *want, bool *is_same) {
  const tni_cf_inst first = rig->i;
  rig->d.guard = OTHER_GUARD;
  bool ok = tni_cf_inst_make(&rig->i, &rig->d, rig->sym, (tni_cf_room){0, 0});
  for (uint32_t i = 0; ok && i < rig->b.n_in; i++)
    ok = tni_cf_inst_write(&rig->i, rig->b.in[i], rig->in[i].data, rig->in[i].bytes);
  if (!ok) snprintf(rig->why, sizeof rig->why, "%s", rig->i.why);
  ok = ok && tni_cf_rig_run(rig, 0x5b, TNI_CF_INLINE);
  *is_same = ok && tni_cf_rig_same(rig, want);
  tni_cf_inst_finish(&rig->i);
  rig->i = first;
  rig->d.guard = 0;
  return ok;
}

static void ask_rows(tni_cf *cf, tni_cf_rig *rig, const char *name, int64_t rows, tni_cf_rng *r) {
  static const uint8_t fills[] = {0x00, 0xff, 0x7f, 0x5b};
  void *want[TNI_CN_MAX_OUT] = {NULL};
  bool is_same = true, ok = tni_cf_rig_prepare(rig, rows, r);
  if (ok) protect_inputs(rig, PROT_READ);
  ok = ok && tni_cf_rig_run(rig, 0x5b, TNI_CF_INLINE) && tni_cf_rig_keep(rig, cf->arena, want);
  for (size_t i = 0; ok && is_same && i < sizeof fills; i++)
    for (uint32_t split = 0; ok && is_same && split < TNI_CF_SPLITS; split++) {
      ok = tni_cf_rig_run(rig, fills[i], split);
      is_same = ok && tni_cf_rig_same(rig, want);
    }
  if (ok && !is_same)
    tni_cf_fail(cf, "%s, %lld rows: other bits of the same inputs, when scratch and outputs hold something else before, or "
                    "work is cut another way", name, (long long)rows);
  if (ok && is_same && (ok = beside(rig, want, &is_same)) && !is_same)
    tni_cf_fail(cf, "%s, %lld rows: other bits when something else lies beside its inputs: it reads before or after them", name,
                (long long)rows);
  if (!ok) tni_cf_fail(cf, "%s, %lld rows: %s", name, (long long)rows, rig->why);
  if (rig->made) protect_inputs(rig, PROT_READ | PROT_WRITE);
  if (rig->made) tni_cf_inst_finish(&rig->i);
  rig->made = false;
}

/* False: not taken in this form and phase. */
static bool ask_form(tni_cf *cf, tni_cf_host *h, const tn_custom_op *o, int kind, int sizes, uint32_t phase, char *why,
                     size_t n) {
  static const int64_t rows[] = {5, 1, 17};
  tni_cf_rng r = tni_cf_rng_of(cf, 1);
  tni_cf_rig rig;
  char name[96];
  memset(&rig, 0, sizeof rig);
  snprintf(name, sizeof name, "%.40s.%.40s", o->domain, o->type);
  const bool made = make_graph(&rig.b, o, kind, sizes, &r), taken = made && tni_cf_rig_claim_made(&rig, h, phase);
  if (made && !taken) snprintf(why, n, "%s: %.200s", name, rig.why);
  if (!made) snprintf(why, n, "%s: no graph can be made by its rule '%.80s': %.100s", name, o->shape, rig.b.err.message);
  for (size_t i = 0; taken && i < sizeof rows / sizeof *rows && cf->verdict == TNI_CF_PASS; i++)
    ask_rows(cf, &rig, name, rows[i], &r);
  if (made)
    tni_cf_rig_finish(&rig);
  else if (rig.b.g)
    tni_cn_destroy(&rig.b);
  return taken;
}

static bool ask_operator(tni_cf *cf, tni_cf_host *h, const tn_custom_op *o, char *why, size_t n) {
  static const uint32_t phases[] = {TN_PHASE_ANY, TN_PHASE_PREFILL, TN_PHASE_DECODE};
  for (int kind = 0; kind < KINDS; kind++)
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++)
      if (ask_form(cf, h, o, kind, EVEN, phases[p], why, n)) {
        char other[400]; /* a rule such as n / 2, and a plugin, may take even ones alone */
        for (int sizes = ODD; sizes < SIZES && cf->verdict == TNI_CF_PASS; sizes++)
          (void)ask_form(cf, h, o, kind, sizes, phases[p], other, sizeof other);
        return true;
      }
  return false;
}

static void ask_operators(tni_cf *cf, const void *arg) {
  tni_cf_host h;
  char why[400] = "it lists no operators of its own (plugin.h, tn_plugin.ops)";
  uint32_t taken = 0, n = 0;
  (void)arg;
  if (!tni_cf_host_open(cf, &h, NULL)) return;
  const tn_plugin *p = h.p.plugin;
  for (; TN_HAS(p, tn_plugin, n_ops) && n < p->n_ops && cf->verdict == TNI_CF_PASS; n++)
    taken += ask_operator(cf, &h, p->ops[n], why, sizeof why);
  tni_cf_host_close(cf, &h);
  if (!taken)
    tni_cf_skip(cf, "%s", why);
  else
    tni_cf_note(cf, "%u of %u operators%s%s", taken, n, taken < n ? "; not asked: " : "", taken < n ? why : "");
}

void tni_cf_memory_operator_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"memory/operators", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, ask_operators, NULL, 60000});
}
