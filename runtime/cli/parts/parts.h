/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the time of a generation goes, by what its tasks compute: what a task is, its nodes' operators say. Every
 * moment between begin, the first token and end belongs to one part, so that parts add up; where tasks run beside each
 * other, they share it.
 */
#ifndef TENON_CLI_PARTS_PARTS_H
#define TENON_CLI_PARTS_PARTS_H

#include <stdbool.h>
#include <tenon/tenon.h>

typedef enum {
  PART_MATMUL,
  PART_ATTENTION,
  PART_NORM,
  PART_ROTARY,
  PART_CACHES,
  PART_EMBEDDING,
  PART_OTHER,
  PART_BETWEEN_TASKS, /* of one step: the runtime's own */
  PART_BETWEEN_STEPS, /* a token chosen and turned into text, the next step's inputs */
  PARTS
} part;

/* Of operators "MatMul Add": attention where one is, then matmul, then the first of the others in the list above. */
part part_of(const char *ops);

/* A task that ran, by the wall clock. ops: the model's memory; what it is, is asked when all is over. */
typedef struct part_event {
  int64_t start, end;
  const char *ops;
  uint32_t step;
} part_event;

typedef struct parts {
  part_event *events;
  size_t n, cap, elsewhere; /* elsewhere: tasks by clocks of their own, which are left out */
  int64_t begin, first_token, end;
  bool no_memory;
} parts;

/* A stretch of time, by part. */
typedef struct parts_sum {
  double ns[PARTS], all_ns;
  uint64_t tasks[PARTS];
  uint32_t steps;
} parts_sum;

void parts_begin(parts *p);
void parts_task(parts *p, const tn_trace_event *e);
void parts_token(parts *p);
void parts_end(parts *p);
void parts_finish(parts *p);

extern const char *const part_names[PARTS];
/* What ran whole between from and to. TN_E_NO_MEMORY: some of it could not be kept. */
tn_status parts_add_up(parts *p, int64_t from, int64_t to, parts_sum *out);

#endif
