/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/pace.h"

/* Guesses are thought to be right more often than not, until they are seen to fail. */
#define BEGINS 0.8
enum { WEIGHT = 16, FORGETS = 1024, FIRST = 1, KNOWN = 5 };

void tni_pace_init(tni_pace *p) {
  *p = (tni_pace){.right = BEGINS};
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

double tni_pace_right(double right, size_t tried, size_t came) {
  for (size_t i = 0; i < came; i++) right += (1 - right) / WEIGHT;
  return came < tried ? right - right / WEIGHT : right;
}

double tni_pace_forgets(double right) { return right < BEGINS ? right + (BEGINS - right) / FORGETS : right; }

/* Not known: as the most rows below it that are. */
static double time_of(const tni_pace *p, size_t rows) {
  double most = 0;
  for (size_t r = 1; r <= rows && r <= TNI_PACE_ROWS; r++)
    if (p->seen[r] == KNOWN && p->ns[r] * p->trust[r] > most) most = p->ns[r] * p->trust[r];
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
    for (size_t i = 0; i < n; i++) {
      double all = 1;
      for (size_t k = 0; k < m && k < texts[i].guesses; k++) tokens += all *= texts[i].right;
    }
    const double t = time_of(p, n * (m + 1)), rate = tokens / (t > 0 ? t : 1);
    if (rate <= best_rate) continue;
    best_rate = rate;
    best = m;
  }
  if (best < most) forget_times(p, n * (best + 1));
  return best;
}
