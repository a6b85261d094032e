/* SPDX-License-Identifier: Apache-2.0
 *
 * What `tenon trace --summary` prints of where the time went.
 */
#include <stdio.h>

#include "runtime/cli/cli.h"
#include "runtime/cli/parts/parts.h"

static double share_of(const parts_sum *s, double ns) { return s->all_ns > 0 ? ns / s->all_ns : 0; }

static double time_outside(const parts_sum *s) {
  return share_of(s, s->all_ns - s->ns[PART_MATMUL] - s->ns[PART_ATTENTION]);
}

/* Milliseconds and tasks of one step, or of all. */
static json_t *sum_json(const parts_sum *s) {
  json_t *list = json_array();
  for (int i = 0; i < PARTS; i++)
    json_array_append_new(
        list, json_pack("{s:s, s:I, s:f, s:f}", "part", part_names[i], "tasks", (json_int_t)s->tasks[i], "ms",
                        s->ns[i] / 1e6, "share", share_of(s, s->ns[i])));
  return json_pack("{s:i, s:f, s:f, s:o}", "steps", (int)s->steps, "ms", s->all_ns / 1e6,
                   "outside_matmul_and_attention", time_outside(s), "parts", list);
}

static void print_table(const cli *c, const parts_sum *prompt, const parts_sum *decode) {
  static const char *const header[] = {"part", "prompt, ms", "share", "tasks a token", "a token, ms", "share"};
  const double steps = decode->steps ? decode->steps : 1;
  cli_table t;
  cli_table_init(&t, header, sizeof header / sizeof *header);
  for (int i = 0; i <= PARTS; i++) {
    char v[5][32];
    uint64_t tasks = 0;
    for (int k = 0; k < PARTS; k++) tasks += i == PARTS || i == k ? decode->tasks[k] : 0;
    const double a = i < PARTS ? prompt->ns[i] : prompt->all_ns, b = i < PARTS ? decode->ns[i] : decode->all_ns;
    snprintf(v[0], sizeof v[0], "%.3f", a / 1e6);
    snprintf(v[1], sizeof v[1], "%.1f %%", 100 * share_of(prompt, a));
    snprintf(v[2], sizeof v[2], "%.1f", (double)tasks / steps);
    snprintf(v[3], sizeof v[3], "%.4f", b / steps / 1e6);
    snprintf(v[4], sizeof v[4], "%.1f %%", 100 * share_of(decode, b));
    if (a > 0 || b > 0) cli_table_add(&t, i < PARTS ? part_names[i] : "all", v[0], v[1], v[2], v[3], v[4]);
  }
  cli_table_print(&t, c->format);
  cli_table_finish(&t);
}

int cli_print_parts(cli *c, parts *p, const char *model, uint32_t tokens) {
  parts_sum prompt, decode;
  tn_status st = parts_add_up(p, p->begin, p->first_token, &prompt);
  if (st == TN_OK) st = parts_add_up(p, p->first_token, p->end, &decode);
  if (st != TN_OK) return cli_fail(c, st);
  if (c->format == FMT_JSON) {
    json_t *j = json_pack("{s:s, s:s, s:i, s:I, s:o, s:o}", "model", model, "profile",
                          c->profile ? c->profile : "default", "prompt_tokens", (int)tokens, "elsewhere",
                          (json_int_t)p->elsewhere, "prompt", sum_json(&prompt), "decode", sum_json(&decode));
    cli_print_json(j, JSON_INDENT(1));
    return EXIT_DONE;
  }
  print_table(c, &prompt, &decode);
  cli_note("a prompt of %u tokens, then %u steps: %.1f %% of them outside matmul and attention", tokens, decode.steps,
           100 * time_outside(&decode));
  if (p->elsewhere) cli_note("%zu tasks on clocks of their own are left out", p->elsewhere);
  return EXIT_DONE;
}
