/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro tiles of 1 to 6 or 12 rows, a function for each number of them: L_n(X) is X of rows 0 to n - 1, which gives
 * accumulators names of their own (compilers keep them in registers then); TNI_ROWS and TNI_ROWS_12 pick one.
 */
#ifndef TENON_OPS_HOT_HOT_ROWS_H
#define TENON_OPS_HOT_HOT_ROWS_H

#define L1(X) X(0)
#define L2(X) L1(X) X(1)
#define L3(X) L2(X) X(2)
#define L4(X) L3(X) X(3)
#define L5(X) L4(X) X(4)
#define L6(X) L5(X) X(5)
#define L7(X) L6(X) X(6)
#define L8(X) L7(X) X(7)
#define L9(X) L8(X) X(8)
#define L10(X) L9(X) X(9)
#define L11(X) L10(X) X(10)
#define L12(X) L11(X) X(11)

/* CALL(mr), mr being a literal there. */
#define TNI_ROWS(mr, CALL) \
  switch (mr) {            \
    case 1:                \
      CALL(1);             \
      break;               \
    case 2:                \
      CALL(2);             \
      break;               \
    case 3:                \
      CALL(3);             \
      break;               \
    case 4:                \
      CALL(4);             \
      break;               \
    case 5:                \
      CALL(5);             \
      break;               \
    default:               \
      CALL(6);             \
      break;               \
  }

#define TNI_ROWS_12(mr, CALL) \
  switch (mr) {               \
    case 7:                   \
      CALL(7);                \
      break;                  \
    case 8:                   \
      CALL(8);                \
      break;                  \
    case 9:                   \
      CALL(9);                \
      break;                  \
    case 10:                  \
      CALL(10);               \
      break;                  \
    case 11:                  \
      CALL(11);               \
      break;                  \
    case 12:                  \
      CALL(12);               \
      break;                  \
    default:                  \
      TNI_ROWS(mr, CALL)      \
      break;                  \
  }

#endif
