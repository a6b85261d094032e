/* SPDX-License-Identifier: Apache-2.0
 *
 * Micro tiles of 1 to 6 rows, a function for each number of them: L_n(X) is X of rows 0 to n - 1, which gives
 * accumulators names of their own (compilers keep them in registers then); TNI_ROWS picks one.
 */
#ifndef TENON_HOST_HOT_ROWS_H
#define TENON_HOST_HOT_ROWS_H

#define L1(X) X(0)
#define L2(X) L1(X) X(1)
#define L3(X) L2(X) X(2)
#define L4(X) L3(X) X(3)
#define L5(X) L4(X) X(4)
#define L6(X) L5(X) X(5)

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

#endif
