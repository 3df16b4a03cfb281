package kvstoretest

import "slices"

// Cases returns all cases that run on one job.
func Cases() []Case {
	return slices.Concat(Assigning(), Doubling(), adapting(), others())
}

// Assigning are the cases without an optimizer, for one job.
func Assigning() []Case {
	g := "assigning"
	return []Case{
		{Name: "init gives rank 0's value", Group: g, Run: initGivesRankZerosValue},
		{Name: "push-pull without optimizer gives the sum", Group: g, Run: sumReplaces},
		{Name: "push of lists and devices gives their sum", Group: g, Run: listsAddUp},
		{Name: "push-pull of many keys", Group: g, Run: manyKeys},
		{Name: "keys may be initialised in any order", Group: g, Run: anyOrder},
		{Name: "misuse is an error that names the key", Group: g, Run: misuse},
		{Name: "averaged keys", Group: g, Run: averages},
		{Name: "sums are in rank order", Group: g, Run: rankOrder},
		{Name: "rows without optimizer are replaced", Group: g, Run: rowsReplaced},
		{Name: "barriers", Group: g, Run: barriers},
	}
}

// Doubling are the cases whose optimizer is w ← w + 2·Σg, for one job that may have run Assigning
// before.
func Doubling() []Case {
	cases := []Case{
		{Name: "push then pull", Run: pushThenPull},
		{Name: "push then pull in 16 bits", Run: pushThenPullHalf},
		{Name: "two devices a worker", Run: twoDevices},
		{Name: "rows", Run: rows},
		{Name: "rows of a big key", Run: bigRows},
		{Name: "rows twice and in any order add up", Run: duplicateRows},
		{Name: "rows of an open vocabulary are made when pushed", Run: openRows},
		{Name: "a full table refuses rows", Run: fullTable},
		{Name: "invalid tables are refused", Run: badTables},
		{Name: "2bit", Run: twoBit},
		{Name: "1bit", Run: oneBit},
		{Name: "topk", Run: topK},
		{Name: "residuals can be put back", Run: residuals},
		{Name: "a worker may push ahead", Run: pushAhead},
		{Name: "another optimizer is a conflict", Run: conflict},
	}
	for i := range cases {
		cases[i].Group, cases[i].Optimizer = "doubling", &doubling
		switch cases[i].Name {
		case "2bit", "1bit", "topk", "residuals can be put back", "push then pull in 16 bits":
			// "local" sends nothing, and "device" has cases of its own.
			cases[i].Types = []string{"dist_sync", "dist_device_sync"}
		}
	}
	return cases
}
