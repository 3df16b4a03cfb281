package f32

func depthwiseWide(p Path, a *DepthwiseArgs, n int) {
	add := 0
	if a.Add {
		add = 1
	}
	if p == AVX2 {
		depthwiseAVX2(&a.Out[0], &a.In[0], &a.W[0], &a.Taps[0], len(a.Taps), n, a.Pixels, 4*a.OutStep, 4*a.InStep, add)
	} else {
		depthwiseAVX512(&a.Out[0], &a.In[0], &a.W[0], &a.Taps[0], len(a.Taps), n, a.Pixels, 4*a.OutStep, 4*a.InStep, add)
	}
}

func depthwiseWeightWide(p Path, a *DepthwiseArgs, n int) {
	if p == AVX2 {
		depthwiseWeightAVX2(&a.Out[0], &a.In[0], &a.W[0], &a.Taps[0], len(a.Taps), n, a.Pixels, 4*a.OutStep, 4*a.InStep)
	} else {
		depthwiseWeightAVX512(&a.Out[0], &a.In[0], &a.W[0], &a.Taps[0], len(a.Taps), n, a.Pixels, 4*a.OutStep, 4*a.InStep)
	}
}
