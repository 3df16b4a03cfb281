// Command gen writes the amd64 assembly of package f32 with avo. Package f32's go:generate line
// runs it, once for each set.
package main

import (
	"flag"
	"log"
	"maps"
	"slices"

	. "github.com/mmcloughlin/avo/build"
)

// sets are the functions of a file each.
var sets = map[string]func(){
	"tile":      tiles,
	"vector":    vectors,
	"channel":   channels,
	"half":      halves,
	"compress":  compression,
	"update":    updates,
	"winograd":  winograd,
	"bf16":      bf16,
	"rows":      tableRows,
	"stored":    stored,
	"squares":   squareSums,
	"stream":    streams,
	"rownorm":   rowNorms,
	"columns":   columns,
	"keep":      keeps,
	"math":      functions,
	"depthwise": depthwise,
}

func main() {
	names := slices.Sorted(maps.Keys(sets))
	set := flag.String("set", "", "which functions to write: one of the sets")
	flag.Parse()
	f, ok := sets[*set]
	if !ok {
		log.Fatalf("gen: set %q, want one of %q", *set, names)
	}
	ConstraintExpr("amd64")
	f()
	Generate()
}
