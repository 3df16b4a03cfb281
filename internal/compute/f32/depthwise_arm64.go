package f32

func depthwiseWide(_ Path, a *DepthwiseArgs, n int) {
	add := 0
	if a.Add {
		add = 1
	}
	depthwiseNEON(&a.Out[0], &a.In[0], &a.W[0], &a.Taps[0], len(a.Taps), n, a.Pixels, 4*a.OutStep, 4*a.InStep, add)
}

func depthwiseWeightWide(_ Path, a *DepthwiseArgs, n int) {
	depthwiseWeightNEON(&a.Out[0], &a.In[0], &a.W[0], &a.Taps[0], len(a.Taps), n, a.Pixels, 4*a.OutStep, 4*a.InStep)
}
