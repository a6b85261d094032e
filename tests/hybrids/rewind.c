/* SPDX-License-Identifier: Apache-2.0
 *
 * rewind MODEL: sessions on a model with states of fixed size. A prompt in pieces, going back, sharing: what follows is
 * what a fresh session gives. Going back where the state is not remembered is refused and changes nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { VOCAB = 96, TOKENS = 8, MAX_IO = 32 };

static const int64_t prompt[] = {5, 9, 33, 2, 71, 8, 14, 60, 3, 3, 41}, turn[] = {7, 70, 12}, other[] = {90, 1};
enum {
  PROMPT = sizeof prompt / sizeof *prompt,
  TURN = sizeof turn / sizeof *turn,
  OTHER = sizeof other / sizeof *other
};

static tn_model *model;
static tn_error err;
static int failures;

static void must(tn_status st, const char *what) {
  if (st == TN_OK) return;
  fprintf(stderr, "%s: %s\n", what, err.message);
  exit(1);
}

static void expect(int ok, const char *what) {
  failures += !ok;
  if (!ok) fprintf(stderr, "FAILED: %s\n", what);
}

static tn_session *open_session(void) {
  tn_session *s = NULL;
  const tn_keep_opts keep = {.h = {sizeof keep, 1, 0}, .batch = 1, .capacity = 64};
  must(tn_session_create(model, &s, &err), "create");
  must(tn_session_keep(s, &keep, &err), "keep");
  return s;
}

/* The best id after n ids. */
/* A step of n tokens of `count` sequences: slots from `first` on, or first -1: of the session. The best next of each. */
static void step_rows(tn_session *s, int first, uint32_t count, const int64_t *ids, int n, int64_t *best) {
  tn_tensor in = {.h = {sizeof in, 1, 0},
                  .name = "input_ids",
                  .dtype = TN_DT_I64,
                  .rank = 2,
                  .dims = {count, n},
                  .data = ids,
                  .bytes = (uint64_t)count * (uint64_t)n * 8},
            logits = {.h = {sizeof logits, 1, 0}};
  const tn_tensor *in_ptr[MAX_IO] = {NULL};
  tn_tensor *out_ptr[MAX_IO] = {NULL};
  for (uint32_t i = 0; i < tn_model_n_inputs(model); i++)
    if (strcmp(tn_model_input(model, i)->name, "input_ids") == 0) in_ptr[i] = &in;
  for (uint32_t i = 0; i < tn_model_n_outputs(model); i++)
    if (strcmp(tn_model_output(model, i)->name, "logits") == 0) out_ptr[i] = &logits;
  if (first < 0)
    must(tn_session_step(s, n > 1 ? TN_PHASE_PREFILL : TN_PHASE_DECODE, in_ptr, out_ptr, 0, &err), "step");
  else
    must(tn_session_step_slots(s, (uint32_t)first, count, in_ptr, out_ptr, 0, &err), "step of slots");
  for (uint32_t b = 0; b < count; b++) {
    const float *row = (const float *)logits.data + (size_t)((b + 1) * logits.dims[1] - 1) * VOCAB;
    best[b] = 0;
    for (int64_t v = 1; v < VOCAB; v++)
      if (row[v] > row[best[b]]) best[b] = v;
  }
}

static int64_t step(tn_session *s, const int64_t *ids, int n) {
  int64_t best;
  step_rows(s, -1, 1, ids, n, &best);
  return best;
}

static void go_on(tn_session *s, int64_t next, int64_t *out) {
  for (int i = 0; i < TOKENS; i++) {
    out[i] = next;
    next = step(s, &next, 1);
  }
}


/* Two slots, one beside the other and each alone, with a copy between. */
static void check_slots(const int64_t *want) {
  tn_session *s = NULL;
  int64_t next[2], got[2][TOKENS];
  const tn_keep_opts keep = {.h = {sizeof keep, 1, 0}, .batch = 3, .capacity = 64, .flags = TN_KEEP_SLOTS};
  if (!tn_model_has_slots(model)) {
    printf("no slots\n");
    return;
  }
  must(tn_session_create(model, &s, &err), "create");
  must(tn_session_keep(s, &keep, &err), "keep slots");
  step_rows(s, 2, 1, prompt, PROMPT, next);
  must(tn_session_slot_copy(s, 1, 2, PROMPT, &err), "copy a slot");
  next[1] = next[0];
  got[0][0] = got[1][0] = next[0];
  for (int i = 1; i < 3; i++) { /* one of them is ahead */
    step_rows(s, 2, 1, &next[1], 1, &next[1]);
    got[1][i] = next[1];
  }
  for (int i = 1; i < TOKENS; i++) {
    if (i + 2 < TOKENS) {
      step_rows(s, 1, 2, next, 1, next);
      got[1][i + 2] = next[1];
    } else {
      step_rows(s, 1, 1, next, 1, next);
    }
    got[0][i] = next[0];
  }
  expect(memcmp(got[0], want, sizeof got[0]) == 0, "a slot beside another");
  expect(memcmp(got[1], want, sizeof got[1]) == 0, "a slot ahead of another");
  expect(tn_session_slot_truncate(s, 1, 2, &err) == TN_E_LIMIT, "a slot does not go back");
  must(tn_session_slot_truncate(s, 1, 0, &err), "a slot begins anew");
  step_rows(s, 1, 1, prompt, PROMPT, next);
  expect(next[0] == want[0], "a slot anew");
  expect(tn_session_truncate(s, 0, &err) == TN_E_INVALID, "slots are no session of one length");
  tn_session_destroy(s);
}

static int same(const int64_t *a, const int64_t *b) { return memcmp(a, b, TOKENS * sizeof *a) == 0; }

int main(int argc, char **argv) {
  tn_runtime *rt = NULL;
  int64_t want[TOKENS], turned[TOKENS], got[TOKENS];
  const tn_runtime_opts ro = {.h = {sizeof ro, 1, 0}, .profile = argc > 2 ? argv[2] : "host"};
  if (argc < 2) return 2;
  must(tn_runtime_create(&ro, &rt, &err), "runtime");
  must(tn_model_load(rt, argv[1], NULL, &model, &err), argv[1]);
  expect(tn_model_has_cache(model), "the session keeps the states");
  tn_session *fresh = open_session(), *s = open_session(), *shared = open_session();
  go_on(fresh, step(fresh, prompt, PROMPT), want);

  step(s, prompt, 4);
  step(s, prompt + 4, 1);
  go_on(s, step(s, prompt + 5, PROMPT - 5), got);
  expect(same(got, want), "a prompt in pieces");

  expect(tn_session_truncate(s, PROMPT, &err) == TN_E_LIMIT, "going back into what was generated is refused");
  expect(strstr(err.message, "run the tokens again") != NULL, "the message says what to do");
  expect(tn_session_length(s) == PROMPT + TOKENS, "a refusal changes nothing");
  must(tn_session_truncate(s, PROMPT + TOKENS, &err), "staying");
  const int64_t next = step(s, turn, TURN);
  const int64_t here = step(fresh, turn, TURN);
  expect(next == here, "both go on alike");

  must(tn_session_truncate(s, 0, &err), "to the beginning");
  step(s, prompt, 4);
  step(s, prompt + 4, 3); /* position 4 is remembered */
  must(tn_session_truncate(s, 0, &err), "to the beginning again");
  step(s, prompt + 5, 6);
  expect(tn_session_truncate(s, 4, &err) == TN_E_LIMIT, "a position of another text is not remembered");
  must(tn_session_truncate(s, 0, &err), "to the beginning of what was asked");
  go_on(s, step(s, prompt, PROMPT), got);
  expect(same(got, want), "the same prompt again");

  go_on(s, step(s, turn, TURN), turned);
  must(tn_session_truncate(s, PROMPT + TOKENS, &err), "to where the turn began");
  step(s, other, OTHER);
  must(tn_session_truncate(s, PROMPT + TOKENS, &err), "and once more");
  go_on(s, step(s, turn, TURN), got);
  expect(same(got, turned), "the turn again");

  must(tn_session_share(shared, s, tn_session_length(s), &err), "share");
  expect(step(shared, other, OTHER) == step(s, other, OTHER), "what shares goes on alike");
  expect(tn_session_share(shared, s, 3, &err) == TN_E_LIMIT, "a beginning that nobody remembers is not shared");
  must(tn_session_share(shared, s, 0, &err), "share nothing");
  go_on(shared, step(shared, prompt, PROMPT), got);
  expect(same(got, want), "after sharing nothing");

  check_slots(want);
  const int64_t last = tn_session_length(s);
  char path[] = "/tmp/tenon-state-XXXXXX";
  const int fd = mkstemp(path);
  void *note = NULL;
  uint64_t n_note = 0;
  if (fd >= 0) close(fd);
  must(tn_session_save(s, path, NULL, 0, &err), "save");
  must(tn_session_load(shared, path, &note, &n_note, &err), "load");
  expect(n_note == 0 && tn_session_length(shared) == last, "a state from a file");
  expect(tn_session_truncate(shared, last - 1, &err) == TN_E_LIMIT, "a state from a file does not go back");
  expect(step(shared, turn, TURN) == step(s, turn, TURN), "a state from a file goes on alike");
  tn_free(note);
  unlink(path);

  tn_session_destroy(fresh);
  tn_session_destroy(s);
  tn_session_destroy(shared);
  tn_model_destroy(model);
  tn_runtime_destroy(rt);
  return failures != 0;
}
