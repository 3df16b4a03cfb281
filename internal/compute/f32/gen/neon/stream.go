package main

// slice is the size of a slice's header.
const slice = 24

func init() {
	sets["stream"] = func() {
		pastCaches(false)
		pastCaches(true)
	}
}

// pastCaches writes the kernel of SumTo, or that of MeanTo if mean.
func pastCaches(mean bool) {
	name, signature, kernel := "sumToNEON", "func(dsts *[]float32, dstsBytes int, srcs *[]float32, srcsBytes int, n int)", "SumTo"
	if mean {
		name, signature, kernel = "meanToNEON", "func(dsts *[]float32, dstsBytes int, srcs *[]float32, srcsBytes int, n int, by float32)", "MeanTo"
	}
	text(name, signature,
		"is "+kernel+" for n values, a multiple of four vectors. It is given the slices and how many bytes their headers take.")
	dsts, dstsEnd, srcs, srcsEnd, n := arg("dsts"), arg("dstsBytes"), arg("srcs"), arg("srcsBytes"), arg("n")
	i, k, p, sum := r(), r(), r(), vs(unroll)
	var by vec
	if mean {
		by = broadcast("by")
	}
	g("ADD %v, %v, %v", dsts, dstsEnd, dstsEnd)
	g("ADD %v, %v, %v", srcs, srcsEnd, srcsEnd)
	g("MOVD $0, %v", i) // bytes
	// at points p at the values of the slice whose header is at k.
	at := func() {
		g("MOVD (%v), %v", k, p)
		g("ADD %v, %v, %v", i, p, p)
	}
	label("loop")
	g("MOVD %v, %v", srcs, k)
	at()
	ldpQ(sum[0], sum[1], mem{p, 0})
	ldpQ(sum[2], sum[3], mem{p, 32})
	g("B more")
	label("add")
	at()
	scope(func() {
		x, y := v(), v()
		for u := 0; u < unroll; u += 2 {
			ldpQ(x, y, mem{p, 16 * u})
			fadd(sum[u], sum[u], x)
			fadd(sum[u+1], sum[u+1], y)
		}
	})
	label("more")
	g("ADD $%d, %v, %v", slice, k, k)
	g("CMP %v, %v", srcsEnd, k)
	g("BLO add")
	if mean {
		for u := range sum {
			fdiv(sum[u], sum[u], by)
		}
	}
	g("MOVD %v, %v", dsts, k)
	label("store")
	at()
	stnpQ(sum[0], sum[1], mem{p, 0})
	stnpQ(sum[2], sum[3], mem{p, 32})
	g("ADD $%d, %v, %v", slice, k, k)
	g("CMP %v, %v", dstsEnd, k)
	g("BLO store")
	g("ADD $%d, %v, %v", 4*vecLanes*unroll, i, i)
	g("SUBS $%d, %v, %v", vecLanes*unroll, n, n)
	g("BNE loop")
	end()
}
