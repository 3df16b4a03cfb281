package f32

func hasPath(p Path) bool { return p == Portable }

func kernelsFor(Path) *kernelSet { return &portable }

func (t *Tile) gather(a *GatherArgs, n, ncols int) { gatherPortable(a, n, ncols) }

func (t *Tile) outer(a *OuterArgs, rows int) { outerPortable(a, rows) }

func (t *Tile) transpose(a *TransposeArgs, n, m int) { transposePortable(a, n, m) }
