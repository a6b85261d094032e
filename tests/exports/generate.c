/* SPDX-License-Identifier: Apache-2.0
 *
 * generate PROFILE MODEL TOKENS left|right IDS...: the greedy continuation of a batch of prompts (IDS: 5,9,33), padded
 * on one side, by a session that keeps its caches. One line of ids for each prompt.
 *
 * generate PROFILE MODEL TOKENS left|right IDS... = IDS...: what follows "=" are continuations that something else
 * chose, one for each prompt. They are fed to the reference of the profile's devices (TN_MODEL_REFERENCE). Printed is
 * how much less than its best id the reference ever likes the one that was chosen, by the size of the best logit.
 *
 * generate.py runs it; users have `tenon run` for one prompt.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { MAX_BATCH = 8, MAX_IDS = 256, MAX_IO = 64 };

typedef struct batch {
  int n, width;
  int ids[MAX_BATCH][MAX_IDS], mask[MAX_BATCH][MAX_IDS], length[MAX_BATCH];
} batch;

typedef struct loop {
  const batch *b;
  tn_model *model;
  tn_session *session;
  int64_t data[3][MAX_BATCH * MAX_IDS]; /* ids, positions, mask of a step */
  tn_tensor in[3], logits;
  const tn_tensor *in_ptr[MAX_IO];
  tn_tensor *out_ptr[MAX_IO];
  int seen[MAX_BATCH];          /* tokens of a sequence so far, its padding apart */
  const int (*chosen)[MAX_IDS]; /* or NULL: the best ones */
  double gap;
  tn_error err;
} loop;

static _Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "generate: %s: %s\n", what, why);
  exit(1);
}

static void check(tn_status st, const tn_error *e) {
  if (st != TN_OK) fail(e->where, e->message);
}

static int read_ids(const char *text, int *ids) {
  int n = 0;
  for (char *end; n < MAX_IDS && *text; text = *end ? end + 1 : end) {
    ids[n++] = (int)strtol(text, &end, 10);
    if (end == text || (*end && *end != ',')) fail(text, "no list of ids");
  }
  return n;
}

static void read_prompts(batch *b, int n, char **texts, int left) {
  int ids[MAX_BATCH][MAX_IDS];
  b->n = n;
  for (int i = 0; i < n; i++) {
    b->length[i] = read_ids(texts[i], ids[i]);
    if (b->length[i] > b->width) b->width = b->length[i];
  }
  for (int i = 0; i < n; i++) {
    const int at = left ? b->width - b->length[i] : 0;
    for (int k = 0; k < b->length[i]; k++) {
      b->ids[i][at + k] = ids[i][k];
      b->mask[i][at + k] = 1;
    }
  }
}

/* n entries of a sequence: what[i * n + k]. int32 where the model wants that. */
static void set_input(loop *l, int which, const tn_io_info *x, int n) {
  tn_tensor *t = &l->in[which];
  const int count = l->b->n * n;
  int32_t *narrow = (int32_t *)(void *)l->data[which];
  if (x->dtype == TN_DT_I32)
    for (int i = 0; i < count; i++) narrow[i] = (int32_t)l->data[which][i];
  else if (x->dtype != TN_DT_I64)
    fail(x->name, "neither int32 nor int64");
  *t = (tn_tensor){.h = {sizeof *t, 1, 0},
                   .name = x->name,
                   .dtype = x->dtype,
                   .rank = 2,
                   .dims = {l->b->n, n},
                   .data = l->data[which],
                   .bytes = (uint64_t)count * (x->dtype == TN_DT_I32 ? 4 : 8)};
}

static void bind_inputs(loop *l, int n) {
  static const char *const names[] = {"input_ids", "position_ids", "attention_mask"};
  for (uint32_t i = 0; i < tn_model_n_inputs(l->model); i++) {
    const tn_io_info *x = tn_model_input(l->model, i);
    l->in_ptr[i] = NULL;
    for (int k = 0; k < 3; k++) {
      if (strcmp(x->name, names[k]) != 0) continue;
      set_input(l, k, x, n);
      l->in_ptr[i] = &l->in[k];
    }
  }
}

static float number(const tn_tensor *t, size_t i) {
  if (t->dtype == TN_DT_F32) return ((const float *)t->data)[i];
  const uint16_t h = ((const uint16_t *)t->data)[i];
  if (t->dtype == TN_DT_BF16) {
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
  }
  if (t->dtype != TN_DT_F16) fail(t->name, "no logits of a float type");
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) fail(t->name, "a logit is no number");
  const float size = ldexpf((float)(exponent ? fraction | 1024 : fraction), (exponent ? exponent : 1) - 25);
  return h & 0x8000 ? -size : size;
}

/* The id of row `row` of sequence b at step t: the best one, or the one that was chosen. */
static int next_id(loop *l, int b, int row, int t) {
  const tn_tensor *x = &l->logits;
  const size_t rows = (size_t)x->dims[1], vocab = (size_t)x->dims[2], at = ((size_t)b * rows + (size_t)row) * vocab;
  size_t best = 0;
  for (size_t v = 1; v < vocab; v++)
    if (number(x, at + v) > number(x, at + best)) best = v;
  if (!l->chosen) return (int)best;
  const int id = l->chosen[b][t];
  if (id < 0 || (size_t)id >= vocab) fail("IDS", "outside the vocabulary");
  const double top = (double)number(x, at + best), gap = top - (double)number(x, at + (size_t)id);
  const double size = top < -1 ? -top : top < 1 ? 1 : top;
  if (!(gap / size <= l->gap)) l->gap = gap / size;
  return id;
}

static void run_step(loop *l, int n) {
  bind_inputs(l, n);
  l->logits = (tn_tensor){.h = {sizeof l->logits, 1, 0}};
  check(tn_session_step(l->session, n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE, l->in_ptr, l->out_ptr, 0, &l->err),
        &l->err);
  if (l->logits.rank != 3 || l->logits.dims[0] != l->b->n || (l->logits.dims[1] != n && l->logits.dims[1] != 1))
    fail(l->logits.name ? l->logits.name : "logits", "not [batch, step, vocabulary]");
}

static void feed_prompts(loop *l, int *next) {
  const batch *b = l->b;
  for (int i = 0; i < b->n; i++) {
    for (int k = 0, seen = 0; k < b->width; k++) {
      const int at = i * b->width + k;
      seen += b->mask[i][k];
      l->data[0][at] = b->ids[i][k];
      l->data[1][at] = seen ? seen - 1 : 0;
      l->data[2][at] = b->mask[i][k];
    }
    l->seen[i] = b->length[i];
  }
  run_step(l, b->width);
  for (int i = 0; i < b->n; i++) { /* models that cut rows give the last one only */
    const int last = b->mask[i][b->width - 1] ? b->width - 1 : b->length[i] - 1;
    next[i] = next_id(l, i, l->logits.dims[1] == 1 ? 0 : last, 0);
  }
}

static void feed_tokens(loop *l, int *next, int t) {
  for (int i = 0; i < l->b->n; i++) {
    l->data[0][i] = next[i];
    l->data[1][i] = l->seen[i]++;
    l->data[2][i] = 1;
  }
  run_step(l, 1);
  for (int i = 0; i < l->b->n; i++) next[i] = next_id(l, i, 0, t);
}

static void generate(loop *l, int tokens) {
  int next[MAX_BATCH], (*all)[MAX_IDS] = calloc(MAX_BATCH, sizeof *all);
  if (!all) fail("generate", "out of memory");
  for (int t = 0; t < tokens; t++) {
    if (t)
      feed_tokens(l, next, t);
    else
      feed_prompts(l, next);
    for (int i = 0; i < l->b->n; i++) all[i][t] = next[i];
  }
  if (l->chosen) printf("%.3e\n", l->gap);
  for (int i = 0; !l->chosen && i < l->b->n; i++)
    for (int t = 0; t < tokens; t++) printf("%d%c", all[i][t], t + 1 < tokens ? ' ' : '\n');
  free(all);
}

static void open_session(loop *l, tn_runtime *rt, const char *path, int tokens) {
  const tn_model_opts o = {.h = {sizeof o, 1, 0}, .flags = l->chosen ? TN_MODEL_REFERENCE : 0};
  check(tn_model_load(rt, path, &o, &l->model, &l->err), &l->err);
  if (!tn_model_has_cache(l->model)) fail(path, "its caches are not kept in place");
  if (tn_model_n_inputs(l->model) > MAX_IO || tn_model_n_outputs(l->model) > MAX_IO) fail(path, "too many inputs");
  check(tn_session_create(l->model, &l->session, &l->err), &l->err);
  const tn_keep_opts keep = {.h = {sizeof keep, 1, 0}, .batch = l->b->n, .capacity = l->b->width + tokens};
  check(tn_session_keep(l->session, &keep, &l->err), &l->err);
  for (uint32_t i = 0; i < tn_model_n_outputs(l->model); i++)
    if (strcmp(tn_model_output(l->model, i)->name, "logits") == 0) l->out_ptr[i] = &l->logits;
}

static void read_chosen(loop *l, int (*chosen)[MAX_IDS], char **texts, int tokens) {
  l->chosen = (const int(*)[MAX_IDS])chosen;
  for (int i = 0; i < l->b->n; i++)
    if (read_ids(texts[i], chosen[i]) != tokens) fail(texts[i], "not as many ids as TOKENS says");
}

int main(int argc, char **argv) {
  static batch b;
  static int chosen[MAX_BATCH][MAX_IDS];
  static loop l = {.b = &b};
  tn_runtime *rt = NULL;
  const int tokens = argc > 5 ? atoi(argv[3]) : 0;
  int n = 0;
  while (5 + n < argc && strcmp(argv[5 + n], "=") != 0) n++;
  const int rest = argc - 5 - n;
  if (n < 1 || n > MAX_BATCH || tokens < 1 || tokens > MAX_IDS || (rest && rest != n + 1))
    fail("usage", "PROFILE MODEL TOKENS left|right IDS... [= IDS...]");
  read_prompts(&b, n, argv + 5, strcmp(argv[4], "left") == 0);
  if (rest) read_chosen(&l, chosen, argv + 6 + n, tokens);
  tn_error_init(&l.err);
  const char *plugins = getenv("TENON_PLUGIN_PATH");
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = argv[1],
                             .plugin_dirs = &plugins,
                             .n_plugin_dirs = plugins ? 1 : 0,
                             .flags = TN_RT_NO_PROBE};
  check(tn_runtime_create(&o, &rt, &l.err), &l.err);
  open_session(&l, rt, argv[2], tokens);
  generate(&l, tokens);
  tn_session_destroy(l.session);
  tn_model_destroy(l.model);
  tn_runtime_destroy(rt);
  return 0;
}
