/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/pace.h"

/* Guesses are thought to be right more often than not, until they are seen to fail. */
#define BEGINS 0.8
#define BEGINS_FIRST 0.5
/* Guesses after single tokens are tried in most steps: they must gain a tenth, more than the clock is wrong by. */
#define SINGLE_COST 1.1
enum { WEIGHT = 16, FORGETS = 1024, FIRST = 1, KNOWN = 5 };

void tni_pace_init(tni_pace *p) {
  *p = (tni_pace){.odds = {BEGINS, BEGINS_FIRST}};
  for (size_t r = 0; r <= TNI_PACE_ROWS; r++) p->trust[r] = 1;
}

/* Near the shortest: what else a machine did makes steps longer, never shorter. The first one makes what others use. */
void tni_pace_took(tni_pace *p, size_t rows, int64_t ns) {
  if (p->even || !rows || rows > TNI_PACE_ROWS || ns <= 0) return;
  const double t = (double)ns;
  double *v = &p->ns[rows];
  p->trust[rows] = 1;
  if (p->seen[rows] < KNOWN) {
    if (p->seen[rows] == FIRST || (p->seen[rows] > FIRST && t < *v)) *v = t;
    p->seen[rows]++;
    return;
  }
  *v = t < *v ? *v + (t - *v) / 2 : *v + (t - *v) / WEIGHT;
}

static void learn_odds(double *right, size_t tried, size_t came) {
  for (size_t i = 0; i < came; i++) *right += (1 - *right) / WEIGHT;
  if (came < tried) *right -= *right / WEIGHT;
}

void tni_pace_learn(tni_pace_odds *o, bool single, size_t tried, size_t came) {
  if (single) {
    learn_odds(&o->first, 1, came > 0);
    if (!came) return;
    tried--;
    came--;
  }
  learn_odds(&o->right, tried, came);
}

static void forget_odds(double *right, double begins) {
  if (*right < begins) *right += (begins - *right) / FORGETS;
}

void tni_pace_forget(tni_pace_odds *o, bool single) {
  if (single)
    forget_odds(&o->first, BEGINS_FIRST);
  else
    forget_odds(&o->right, BEGINS);
}

/* A step of so many rows, 0: not known. After two that were timed it takes three quarters of the shorter at least. */
static double known_time(const tni_pace *p, size_t rows) {
  const double t = p->ns[rows] * p->trust[rows];
  return p->seen[rows] == KNOWN ? t : p->seen[rows] >= FIRST + 2 ? t * 0.75 : 0;
}

/* Not known: on the line between those below and above that are; beyond all of these as the most of them. */
static double time_of(const tni_pace *p, size_t rows) {
  double most = 0;
  size_t below = 0;
  for (size_t r = 1; r <= TNI_PACE_ROWS && (r <= rows || below < rows); r++) {
    const double t = known_time(p, r);
    if (t <= 0) continue;
    if (r > rows) return t > most && below ? most + (t - most) * (double)(rows - below) / (double)(r - below) : most;
    if (t > most) most = t;
    below = r;
  }
  return most;
}

/* Steps that were not run, as they looked slow, slowly look faster: one day they are run again. */
static void forget_times(tni_pace *p, size_t rows) {
  for (size_t r = rows + 1; r <= TNI_PACE_ROWS; r++) p->trust[r] -= p->trust[r] / FORGETS;
}

size_t tni_pace_worth(tni_pace *p, const tni_pace_text *texts, size_t n, size_t most) {
  size_t best = 0;
  double best_rate = 0;
  for (size_t m = 0; m <= most; m++) {
    double tokens = (double)n;
    size_t singles = 0;
    for (size_t i = 0; i < n; i++) {
      double all = 1;
      singles += texts[i].single && texts[i].guesses;
      for (size_t k = 0; k < m && k < texts[i].guesses; k++)
        tokens += all *= texts[i].single && k == 0 ? texts[i].odds.first : texts[i].odds.right;
    }
    const double t = time_of(p, n * (m + 1)) * (m && singles == n ? SINGLE_COST : 1), rate = tokens / (t > 0 ? t : 1);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = m;
  }
  if (best < most) forget_times(p, n * (best + 1));
  return best;
}
