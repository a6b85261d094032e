/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/life/model.h"
#include "runtime/conform/real/real.h"

#include <string.h>
#include <tenon/tenon.h>

#include "runtime/llm/llm.h"

enum { TOKENS = 8 };

/* Ids that one load gave. */
typedef struct heard {
  int32_t id[TOKENS];
  uint32_t n;
} heard;

static int on_token(void *user, int32_t id, const char *text, size_t n) {
  heard *h = user;
  (void)text, (void)n;
  if (h->n < TOKENS) h->id[h->n++] = id;
  return 0;
}

/* Everything that it claims of the model is lowered, packed, bound and run: a prompt and a few tokens, tasks in an
 * order drawn by seed (0: the planned one), canaries after all memory. Every task of the plugin is computed once more
 * from the same inputs by the format reference, and judged by the bound of the declared numerics. */
static bool text_generate(tni_cf *cf, tn_runtime *rt, uint64_t seed, heard *h) {
  static const char prompt[] = "In the beginning";
  tn_error err;
  tn_lm *lm = NULL;
  tn_chat *chat = NULL;
  tn_gen_params p;
  tn_gen_result res = {.h = {sizeof res, 1, 0}};
  tni_error_init(&err);
  const tn_lm_opts o = {.h = {sizeof o, 1, 0}, .model_flags = TN_MODEL_CAPTURE, .max_seq = 64, .order_seed = seed};
  tn_gen_params_init(&p);
  p.max_tokens = TOKENS;
  p.temperature = 0;
  p.flags = TN_GEN_IGNORE_EOS;
  h->n = 0;
  tn_status st = tn_lm_load(rt, cf->subject->model, &o, &lm, &err);
  if (st == TN_OK) st = tn_chat_create(lm, &chat, &err);
  if (st == TN_OK) st = tn_generate(chat, prompt, sizeof prompt - 1, &p, on_token, h, &res, &err);
  /* No language model, or none that the host runs: that is no matter of the plugin's, which is named where it is one. */
  if (st == TN_E_UNSUPPORTED && !lm && !strstr(err.message, "plugin"))
    tni_cf_skip(cf, "%s is run as no language model: %s; `tenon verify MODEL --against reference --each-node` asks it "
                    "group by group", cf->subject->model, err.message);
  else if (st != TN_OK)
    tni_cf_fail(cf, "%s, tasks in %s order: %s: %s", cf->subject->model, seed ? "a random" : "the planned", err.where,
                err.message);
  else if (!tni_cf_judge_session(cf, chat->session, false, false))
    tni_cf_skip(cf, "it takes nothing of %s", cf->subject->model);
  tn_chat_destroy(chat);
  tn_lm_destroy(lm);
  return st == TN_OK;
}

static void task_orders(tni_cf *cf, tn_runtime *rt, void *arg) {
  (void)arg;
  heard planned, other;
  if (!text_generate(cf, rt, 0, &planned) || cf->verdict != TNI_CF_PASS) return;
  for (uint64_t i = 1; i <= (cf->subject->thorough ? 10 : 2) && cf->verdict == TNI_CF_PASS; i++)
    if (text_generate(cf, rt, cf->seed % 1000000 + i, &other) &&
        (other.n != planned.n || memcmp(other.id, planned.id, planned.n * sizeof *planned.id)))
      tni_cf_fail(cf, "tasks in another order that their dependencies allow generate other tokens");
  tni_cf_note(cf, "%u tokens, first %d", planned.n, planned.n ? planned.id[0] : -1);
}

static void check_model(tni_cf *cf, const void *arg) {
  (void)arg;
  tni_cf_with_runtime(cf, 2, 0, cf->subject->model, task_orders, NULL);
}

void tni_cf_model_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  if (!l->subject->model || !strcmp(l->subject->path, "host")) return;
  add(ctx, &(tni_cf_case){"honesty/model", TNI_CF_LEVEL_ALL & ~TNI_CF_LEVEL_ABI, 0, check_model, NULL, 300000});
}
