#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Lays out a dumped graph with awkward names; exit 77 when there is no graphviz.
# usage: check_dot.sh PRINT_TABLES
command -v dot >/dev/null || {
  echo "skipped: no graphviz"
  exit 77
}
plain="$("$1" dot | dot -Tplain 2>&1)" || {
  echo "$plain"
  exit 1
}
# 3 nodes, 2 value nodes of subgraphs and 1 of the graph, 3 outputs; every edge twice in and out of them
nodes=$(echo "$plain" | grep -c '^node ')
edges=$(echo "$plain" | grep -c '^edge ')
echo "$plain" | grep -iE 'warning|error' && exit 1
echo "$nodes nodes, $edges edges"
[ "$nodes" = 9 ] && [ "$edges" = 8 ]
