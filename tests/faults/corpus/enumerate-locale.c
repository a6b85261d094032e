/* SPDX-License-Identifier: Apache-2.0 */
#include <locale.h>

#include "whole.h"

IN_ENUMERATE(setlocale(LC_ALL, "C.UTF-8"))
