/* SPDX-License-Identifier: Apache-2.0
 *
 * Random masks: whatever the pass makes of them, Attention gives what it gave. Conditions on positions (offsets and
 * orders off by a little), triangles, slices of constant ones, windows and conditions on keys are joined at random and
 * written as a boolean or an added mask; both graphs run on random sizes.
 */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "tests/passes/forms.h"

#include "runtime/passes/mask/mask.h"

/* LINE: the largest number of an extra term: 3 times 2 * 10 or 10 + 10 positions */
enum { GRAPHS = 6000, SIZES = 3, TEXT = 4096, TERMS = 3, LINE = 3 * 20 };

typedef struct maker {
  uint64_t state;
  char *text;
  int n; /* names given */
} maker;

static uint32_t pick(maker *m, uint32_t n) {
  m->state = m->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(m->state >> 33) % n;
}

static void put(maker *m, const char *s) {
  const size_t len = strlen(m->text);
  snprintf(m->text + len, TEXT - len, "%s", s);
}

/* "nK=<s>; "; returns K. */
static int name(maker *m, const char *s) {
  char line[160];
  snprintf(line, sizeof line, "n%d=%s; ", m->n, s);
  put(m, line);
  return m->n++;
}

static int compare(maker *m) {
  static const char *const ops[] = {"LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal"};
  static const char *const starts[] = {"P", "%0"};
  char s[96];
  const int by = (int)pick(m, 4) ? 0 : (int)pick(m, 5) - 2;
  snprintf(s, sizeof s, "Add Q%s %%%d", starts[pick(m, 8) == 0], by);
  const int q = name(m, s);
  const char *op = ops[pick(m, 9) % 5];
  if (pick(m, 2))
    snprintf(s, sizeof s, "%s KJ n%d", op, q);
  else
    snprintf(s, sizeof s, "%s n%d KJ", op, q);
  return name(m, s);
}

static int window(maker *m) {
  char s[96];
  const int d = name(m, pick(m, 2) ? "Sub KJ QP" : "Sub QP KJ");
  snprintf(s, sizeof s, "%s n%d %%%d", pick(m, 2) ? "Less" : "Greater", d, (int)pick(m, 7) - 3);
  return name(m, s);
}

static int triangle(maker *m) {
  static const char *const offsets[] = {"P", "%0", "P2", "%1"};
  char s[96];
  const int f = name(m, "ConstantOfShape ST {value=f32[1]=1}");
  snprintf(s, sizeof s, "Trilu n%d %s {upper=%d}", f, offsets[pick(m, 4)], (int)pick(m, 2));
  snprintf(s, sizeof s, "Cast n%d {to=9}", name(m, s));
  return name(m, s);
}

static int sliced(maker *m) {
  static const char *const squares[] = {"sq_t", "sq_b", "sq_n"};
  static const char *const rows[] = {"P1 T1", "P1 T1", "#0 S1", "#1 S2"};
  char s[96];
  snprintf(s, sizeof s, "Slice %s %s #2", squares[pick(m, 8) % 3], rows[pick(m, 4)]);
  snprintf(s, sizeof s, "Slice n%d #0 T1 #3", name(m, s));
  return name(m, s);
}

static int keys(maker *m) {
  static const char *const tests[] = {"Cast am {to=9}", "Equal am %1", "Greater am %0", "Less am %1",
                                      "Cast ai {to=9}", "And ab ab",   "Equal am %2",   "LessOrEqual am %1"};
  char s[96];
  snprintf(s, sizeof s, "Unsqueeze n%d #1,2", name(m, tests[pick(m, 8)]));
  return name(m, s);
}

static int queries(maker *m) {
  char s[96];
  snprintf(s, sizeof s, "Unsqueeze n%d #1,3", name(m, "Cast as {to=9}"));
  return name(m, s);
}

static int condition(maker *m) {
  char s[96];
  const uint32_t kind = pick(m, 12);
  const int c = kind < 4     ? compare(m)
                : kind < 6   ? window(m)
                : kind < 7   ? triangle(m)
                : kind < 8   ? sliced(m)
                : kind < 11  ? keys(m)
                : pick(m, 4) ? compare(m)
                             : queries(m);
  if (pick(m, 3)) return c;
  snprintf(s, sizeof s, "Not n%d", c);
  return name(m, s);
}

static int conditions(maker *m) {
  char s[96];
  int c = condition(m);
  for (uint32_t more = pick(m, 3); more > 0; more--) {
    const int other = condition(m);
    snprintf(s, sizeof s, "%s n%d n%d", pick(m, 5) ? "And" : pick(m, 3) ? "Or" : "Xor", c, other);
    c = name(m, s);
  }
  return c;
}

/* An added mask that is 0 where n<c> is true. */
static int added(maker *m, int c) {
  static const char *const low[] = {"-3.4028235e38", "-1e31", "-3.4028235e38", "-9"};
  const char *l = low[pick(m, 4)];
  char s[96];
  switch (pick(m, 4)) {
    case 0:
      snprintf(s, sizeof s, "Where n%d 0 %s", c, pick(m, 2) ? "-inf" : l);
      return name(m, s);
    case 1:
      snprintf(s, sizeof s, "Not n%d", c);
      snprintf(s, sizeof s, "Cast n%d {to=1}", name(m, s));
      snprintf(s, sizeof s, "Mul n%d %s", name(m, s), l);
      return name(m, s);
    case 2:
      snprintf(s, sizeof s, "Cast n%d {to=1}", c);
      snprintf(s, sizeof s, "Sub 1 n%d", name(m, s));
      snprintf(s, sizeof s, "Mul n%d %s", name(m, s), l);
      return name(m, s);
    default:
      snprintf(s, sizeof s, "Where n%d af %s", c, pick(m, 2) ? "-inf" : l);
      return name(m, s);
  }
}

/* Something else that is added: a number per head times positions (or nearly), numbers for keys, or for all. */
static int extra(maker *m) {
  static const char *const places[] = {"KJ",       "Sub KJ QP", "Sub QP KJ", "Mul KJ %2",
                                       "Sub KJ T", "Min KJ QP", "Sub QP T",  "Add KJ QP"};
  static const char *const heads[] = {"su", "sk4", "sn", "e"};
  char s[96];
  const uint32_t kind = pick(m, 6);
  if (kind == 0) return name(m, "Identity mp");
  if (kind == 1) return name(m, "Identity af");
  if (kind == 2) return name(m, "Slice al_t #0 T1 #3");
  if (kind == 3) {
    snprintf(s, sizeof s, "Sub 1 n%d", name(m, "Cast am {to=1}"));
    snprintf(s, sizeof s, "Unsqueeze n%d #1,2", name(m, s));
    snprintf(s, sizeof s, "Mul n%d -9", name(m, s));
    return name(m, s);
  }
  const char *place = places[pick(m, 12) % 8];
  snprintf(s, sizeof s, "Cast %s {to=1}", place);
  if (strcmp(place, "KJ") != 0) snprintf(s, sizeof s, "Cast n%d {to=1}", name(m, place));
  const int p = name(m, s);
  snprintf(s, sizeof s, "Mul n%d %s", p, heads[pick(m, 4)]);
  return name(m, s);
}

static void make(maker *m) {
  char s[96];
  m->text[0] = 0;
  m->n = 0;
  put(m,
      "PS=Shape pk; AS=Shape aq; P1=Slice PS #2 #3; S1=Slice AS #2 #3; T1=Add P1 S1; P=Squeeze P1; T=Squeeze T1; "
      "S=Squeeze S1; S2=Add S1 #1; P2=Add P %1; ST=Concat S1 T1 {axis=0}; KJ=Range %0 T %1; q1=Range P T %1; "
      "QP=Unsqueeze q1 #1; q2=Range %0 S %1; Q%0=Unsqueeze q2 #1; su=Reshape sk #2,1,1; sn=Neg sk4; ");
  int mask = conditions(m);
  if (pick(m, 2)) {
    mask = added(m, mask);
    if (pick(m, 4) == 0) {
      snprintf(s, sizeof s, "Add n%d n%d", mask, added(m, conditions(m)));
      mask = name(m, s);
    }
    for (int terms = 0; terms < TERMS && pick(m, 3) == 0; terms++) {
      const int more = extra(m);
      const bool first = pick(m, 2);
      snprintf(s, sizeof s, "Add n%d n%d", first ? mask : more, first ? more : mask);
      mask = name(m, s);
    }
  }
  snprintf(s, sizeof s, "!M=Identity n%d; y=Attention aq ak av M pk pv", mask);
  put(m, s);
}

/* Queries of `mask` [.., s, t] against [b, 2, s, 4] that see a key. A mask of finite numbers that hides all keys is the
 * only one after which the two may differ. */
static void compare_rows(const tni_tensor *mask, tni_tensor *x, tni_tensor *y) {
  const int64_t b = x->dims[0], s = x->dims[2], keys_of = mask->dims[mask->rank - 1];
  const int64_t rows = mask->dims[mask->rank - 2];
  if (mask->dtype == TN_DT_BOOL) return;
  int64_t all = 1;
  for (uint32_t d = 0; d + 2 < mask->rank; d++) all *= mask->dims[d];
  for (int64_t r = 0; r < b * 2 * s; r++) {
    const int64_t batch = r / s / 2, head = r / s % 2, i = r % s;
    const int64_t plane = all == 1 ? 0 : all == 2 * b ? batch * 2 + head : all == b ? batch : head;
    bool sees = false;
    for (int64_t j = 0; j < keys_of; j++)
      sees = sees || ((const float *)mask->data)[(plane * rows + (rows == 1 ? 0 : i)) * keys_of + j] > -1e30f;
    if (!sees) memset((float *)x->data + r * 4, 0, 16);
    if (!sees) memset((float *)y->data + r * 4, 0, 16);
  }
}

static bool run_both(const tni_graph *plain, const tni_graph *g, maker *m) {
  tni_tensor x[FORM_OUTPUTS], y[FORM_OUTPUTS];
  const form_sizes z = {1 + pick(m, 2), 1 + pick(m, 5), pick(m, 7), pick(m, 1000), 0};
  tni_arena *a = tni_arena_create();
  form_run(plain, &z, a, x);
  form_run(g, &z, a, y);
  compare_rows(&x[0], &x[1], &y[1]);
  /* A row is a mean of at most 11 keys: sums of 11 products, and scores of 4. Where lines are added, these are up to
   * LINE each, and the sum is rounded as often as there are terms; a probability is off by as much, and so is their
   * sum. */
  const bool lines = strstr(m->text, "al_t") || strstr(m->text, "{to=1}");
  const double scores = 4 * 9 + TERMS * LINE;
  const bool same = form_same(&x[1], &y[1], (11 + 4 + (lines ? 2 * (TERMS + 1) * scores : 0)) * (double)FLT_EPSILON);
  tni_arena_destroy(a);
  return same;
}

void test_mask_random(void);
void test_mask_random(void) {
  char text[TEXT];
  maker m = {.state = 20260101, .text = text};
  uint32_t fired_all = 0;
  for (uint32_t i = 0; i < GRAPHS; i++) {
    tn_error err;
    uint32_t fired = 0;
    tni_error_init(&err);
    make(&m);
    tni_graph *g = form_graph(text, &err), *plain = form_graph(text, &err);
    CU_ASSERT_EQUAL_FATAL(tni_pass_mask(g, &fired, &err), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tni_infer_graph(g, &err), TN_OK);

    fired_all += fired;
    bool same = true;
    for (uint32_t k = 0; fired && same && k < SIZES; k++) same = run_both(plain, g, &m);
    CU_ASSERT_TRUE(same);
    if (!same) printf("\n  graph %u: other numbers\n  %s\n", i, text);
    tni_graph_destroy(g);
    tni_graph_destroy(plain);
  }
  printf(" %u of %u fired ", fired_all, GRAPHS);
  CU_ASSERT(fired_all > GRAPHS / 10 && fired_all < GRAPHS * 9 / 10);
}
